// Steps of reference models behind a queue of products that keeps the GPU busy until the host has given it the step.
#include "play/measure_operators.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/json_value.h"
#include "base/log.h"
#include "footprint/cudnn_workspace.h"
#include "ledger/out_of_memory.h"
#include "ops/device_mark.h"
#include "ops/scalar_type.h"
#include "play/reference_model.h"

namespace fathom::play {
namespace {

constexpr int kWarmUps = 2, kTimed = 2;  // steps
constexpr int64_t kLeastBytes = 1 << 16;
constexpr double kHeldSeconds = 0.15;  // longer than a slow host takes to launch a step of two layers

struct ReferenceRun {
  std::string name;
  ReferenceShape shape;
  int64_t rows = 0, length = 0;
  config::RunConfig config = {};
};

config::RunConfig full(config::Optimizer optimizer = config::Optimizer::kAdamW) {
  config::RunConfig config;
  config.dtype = DType::kBF16;
  config.optim = optimizer;
  if (optimizer != config::Optimizer::kAdamW) config.master_weights = config::MasterWeights::kStochastic;
  return config;
}

config::RunConfig lora() {
  config::RunConfig config;
  config.dtype = DType::kBF16;
  config.bf16 = true;
  config.method = config::Method::kLora;
  config.lora_r = 16;
  config.target_modules = {"all-linear"};
  return config;
}

config::RunConfig with(config::RunConfig config, bool config::RunConfig::*key) {
  config.*key = true;
  return config;
}

std::vector<ReferenceRun> reference_runs(bool has_fp8) {
  using config::RunConfig;
  constexpr ReferenceShape k135M{576, 9, 3, 64, 1536, 49152}, k1B{2048, 32, 8, 64, 8192, 128256},
      k7B{3584, 28, 4, 128, 18944, 32000}, k8B{4096, 32, 8, 128, 14336, 32000}, kSmall{1024, 8, 4, 128, 2816, 32000},
      kWideHeads{2048, 8, 4, 256, 8192, 32000};
  RunConfig all_logits = full(), autocast, fp32;
  all_logits.loss_chunk_size = 0;
  autocast.bf16 = true;
  const RunConfig in_8_bits = full(config::Optimizer::kAdamW8bit);
  std::vector<ReferenceRun> runs = {
      {"full, width 576", k135M, 4, 512, full()},
      {"LoRA, width 576", k135M, 4, 512, lora()},
      {"full, width 2,048", k1B, 4, 2048, full()},
      {"full, width 2,048, all logits at once", k1B, 4, 2048, all_logits},
      {"full, width 2,048, heads of 256", kWideHeads, 2, 1024, full()},
      {"full, width 3,584", k7B, 4, 2048, in_8_bits},
      {"full, width 4,096", k8B, 1, 2048, in_8_bits},
      {"full, width 4,096, 4 rows", k8B, 4, 2048, in_8_bits},
      {"LoRA, width 4,096", k8B, 2, 2048, lora()},
      {"LoRA, width 4,096, length 4,096", k8B, 2, 4096, lora()},
      {"LoRA, width 4,096, NF4", k8B, 2, 2048, with(lora(), &RunConfig::load_in_4bit)},
      {"LoRA, width 4,096, INT8", k8B, 2, 2048, with(lora(), &RunConfig::load_in_8bit)},
      {"autocast, width 1,024, length 8,192", kSmall, 1, 8192, autocast},
      {"FP32, width 1,024", kSmall, 4, 512, fp32},
  };
  if (has_fp8) {
    runs.push_back(
        {"LoRA, width 4,096, FP8", k8B, 2, 2048, with(with(lora(), &RunConfig::load_in_fp8), &RunConfig::fp8)});
  }
  for (ReferenceRun& run : runs) {
    run.shape.dtype = run.config.dtype.value_or(DType::kF32);
    run.config.device = config::Device::kCuda;
    run.config.max_length = run.length;
    run.config.per_device_train_batch_size = run.rows;
  }
  return runs;
}

// Queues products that take the GPU so long that its host gets ahead of it.
class Hold {
 public:
  explicit Hold(const train::Placement& placement) {
    constexpr int64_t kSide = 4096;
    constexpr double kMostProducts = 1000;  // also where the clock of a phantom stands
    const auto options = at::TensorOptions().device(placement.device).dtype(at::kBFloat16);
    x_ = at::randn({kSide, kSide}, options);
    out_ = at::empty_like(x_);
    multiply();
    placement.cuda->synchronize();
    const ops::DeviceMark begin(placement.device);
    multiply();
    const ops::DeviceMark end(placement.device);
    placement.cuda->synchronize();
    products_ = static_cast<int>(std::clamp(kHeldSeconds / end.seconds_since(begin), 1.0, kMostProducts));
  }
  void operator()() const {
    for (int i = 0; i < products_; ++i) multiply();
  }

 private:
  void multiply() const {
    const at::NoGradGuard no_gradients;
    at::Tensor out = out_;
    at::mm_out(out, x_, x_);
  }
  at::Tensor x_, out_;
  int products_ = 1;
};

// Throws what counting threw: a table would lack operators.
std::vector<TimedOperator> timed_steps(const ReferenceRun& run, const train::Placement& placement, const Hold& hold) {
  ReferenceTraining training(run.config, run.shape, run.rows, run.length, placement);
  for (int i = 0; i < kWarmUps; ++i) training.step();
  OperatorTimer timer(placement.device);
  for (int i = 0; i < kTimed; ++i) {
    std::optional<ArithmeticCount> count;
    const auto ahead = [&] {  // before the update the host has waited for the GPU
      if (count) static_cast<void>(count->sum());
      count.reset();
      hold();
      count.emplace(placement.device.type(), &timer);
    };
    ahead();
    training.step(ahead);
    static_cast<void>(count->sum());
  }
  placement.cuda->synchronize();
  return timer.take();
}

// Plain sums, of sizes that span what steps stream.
std::vector<TimedOperator> timed_sums(const train::Placement& placement, const Hold& hold) {
  OperatorTimer timer(placement.device);
  const auto options = at::TensorOptions().device(placement.device).dtype(at::kBFloat16);
  for (int64_t elements = int64_t{1} << 16; elements <= int64_t{1} << 28; elements *= 16) {
    at::Tensor sum = at::zeros({elements}, options);
    const at::Tensor added = at::ones_like(sum);
    hold();
    const ArithmeticCount count(placement.device.type(), &timer);
    sum.add_(added);
  }
  placement.cuda->synchronize();
  return timer.take();
}

// Between kernels that the host launches; recorded ones tell what is no gap.
double seconds_of_a_gap(const train::Placement& placement, const Hold& hold) {
  constexpr int kSums = 200;
  constexpr int64_t kElements = 1 << 24;
  at::Tensor sum = at::zeros({kElements}, at::TensorOptions().device(placement.device).dtype(at::kBFloat16));
  const at::Tensor added = at::ones_like(sum);
  const auto sums = [&] {
    for (int i = 0; i < kSums; ++i) sum.add_(added);
  };
  sums();
  const auto recorded = placement.cuda->record(sums);
  const auto seconds = [&](const std::function<void()>& work) {
    hold();
    const ops::DeviceMark begin(placement.device);
    work();
    const ops::DeviceMark end(placement.device);
    placement.cuda->synchronize();
    return end.seconds_since(begin) / kSums;
  };
  return plan::kRecordedGap + std::max(0.0, seconds(sums) - seconds([&] { recorded->replay(); }));
}

// What the host of a small step, which the GPU waits for, spends on each of its operators.
double seconds_of_a_launch(bool cuda_kernels, const train::Placement& placement) {
  constexpr int kSteps = 10;
  config::RunConfig config = full();
  config.cuda_kernels = cuda_kernels;
  config.device = config::Device::kCuda;
  const ReferenceShape shape = {.width = 128,
                                .heads = 2,
                                .key_value_heads = 1,
                                .head_dim = 64,
                                .feed_forward = 256,
                                .vocabulary = 512,
                                .layers = 8,
                                .dtype = DType::kBF16};
  ReferenceTraining training(config, shape, /*rows=*/1, /*length=*/64, placement);
  for (int i = 0; i < kWarmUps; ++i) training.step();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kSteps; ++i) training.step();
  placement.cuda->synchronize();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  OperatorTimer timer(placement.device);
  {
    const ArithmeticCount count(placement.device.type(), &timer);
    training.step();
  }
  placement.cuda->synchronize();
  return took.count() / kSteps / static_cast<double>(std::max<size_t>(1, timer.take().size()));
}

double micros(double seconds) {
  if (seconds <= 0) return 0;
  const double us = 1e6 * seconds;
  const double digits = std::pow(10, 3 - std::floor(std::log10(us)));  // four in all
  return std::round(us * digits) / digits;
}

double median(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

// As OperatorTimes counts it.
DType counted_as(at::ScalarType type) {
  const DType counted = ops::dtype_of(type);
  if (counted == DType::kF8E5M2) return DType::kF8E4M3;
  return counted == DType::kF16 ? DType::kBF16 : counted;
}

// What was measured, by what it is of.
struct Measured {
  using Sides = std::tuple<int64_t, int64_t, int64_t>;
  std::map<std::pair<DType, Sides>, std::vector<double>> products;
  std::map<std::tuple<bool, bool, int64_t, int64_t, int64_t, int64_t>, std::vector<double>> attention;
  std::map<std::pair<std::string, int64_t>, std::vector<double>> streams;
  std::map<DType, double> most_flops;
  double most_bytes = 0;
};

Measured by_kind(const std::vector<TimedOperator>& timed) {
  Measured all;
  for (const TimedOperator& op : timed) {
    if (op.seconds <= 0) continue;
    const DType type = counted_as(op.type);
    if (op.product) {
      const plan::ProductSides& sides = *op.product;
      if (sides.batch != 1) continue;
      all.products[{type, {sides.m, sides.k, sides.n}}].push_back(op.seconds);
      const double flops = 2 * static_cast<double>(sides.m) * static_cast<double>(sides.k * sides.n) / op.seconds;
      all.most_flops[type] = std::max(all.most_flops[type], flops);
    } else if (op.attention) {
      const plan::AttentionSides& sides = *op.attention;
      if (type != DType::kBF16) continue;
      all.attention[{sides.cudnn, sides.backward, sides.rows, sides.heads, sides.length, sides.head_size}].push_back(
          op.seconds);
    } else if (op.bytes >= kLeastBytes) {
      all.streams[{op.name, op.bytes}].push_back(op.seconds);
      all.most_bytes = std::max(all.most_bytes, static_cast<double>(op.bytes) / op.seconds);
    }
  }
  return all;
}

}  // namespace

Json table_of(const TableHead& head, const std::vector<TimedOperator>& timed) {
  Measured all = by_kind(timed);
  const auto listed_or = [](double listed, double measured) { return listed > 0 ? listed : measured; };
  Json table = {{"device", head.gpu.product},
                {"measured_on", head.measured_on},
                {"by", "fathom doctor --calibrate"},
                {"tflops", Json::object()},
                {"memory_gb_per_second", listed_or(head.gpu.memory_bytes_per_second, all.most_bytes) / 1e9},
                {"gap_us", micros(head.gap_seconds)},
                {"launch_us", micros(head.launch_seconds)},
                {"products", Json::array()},
                {"attention", Json::array()},
                {"streams", Json::array()}};
  for (const auto& [type, listed] :
       {std::pair(DType::kBF16, head.gpu.bf16_flops), std::pair(DType::kF32, head.gpu.fp32_flops),
        std::pair(DType::kF8E4M3, head.gpu.fp8_flops)}) {
    const double flops = listed_or(listed, all.most_flops[type]);
    if (flops > 0) table["tflops"][std::string(dtype_name(type))] = flops / 1e12;
  }
  for (auto& [key, seconds] : all.products) {
    const auto& [type, sides] = key;
    const auto& [m, k, n] = sides;
    table["products"].push_back(
        {{"type", dtype_name(type)}, {"m", m}, {"k", k}, {"n", n}, {"us", micros(median(seconds))}});
  }
  for (auto& [key, seconds] : all.attention) {
    const auto& [cudnn, backward, rows, heads, length, head_size] = key;
    table["attention"].push_back({{"cudnn", cudnn},
                                  {"backward", backward},
                                  {"rows", rows},
                                  {"heads", heads},
                                  {"length", length},
                                  {"head_size", head_size},
                                  {"us", micros(median(seconds))}});
  }
  for (auto& [key, seconds] : all.streams) {
    table["streams"].push_back({{"operator", key.first}, {"bytes", key.second}, {"us", micros(median(seconds))}});
  }
  return table;
}

Json measure_operators(const TableHead& head, bool cuda_kernels, const train::Placement& placement,
                       const std::function<void(const std::string& run)>& watch) {
  placement.cuda->take_recordable_stream();
  const Hold hold(placement);
  std::vector<TimedOperator> all = timed_sums(placement, hold);
  const std::string capability = placement.cuda->compute_capability();
  for (ReferenceRun& run : reference_runs(config::has_fp8(capability))) {
    run.config.cuda_kernels = cuda_kernels;
    for (const auto attention : {config::Attention::kFlash, config::Attention::kCudnn}) {
      const bool of_cudnn = attention == config::Attention::kCudnn;
      const bool in_16_bits = run.config.bf16 || run.config.dtype;
      if (of_cudnn && (capability != "9.0" || !footprint::knows_cudnn(in_16_bits ? 2 : 4, run.shape.head_dim)))
        continue;
      run.config.attn_implementation = attention;
      if (watch) watch(run.name + (of_cudnn ? ", cuDNN's attention" : ""));
      try {
        const std::vector<TimedOperator> timed = timed_steps(run, placement, hold);
        all.insert(all.end(), timed.begin(), timed.end());
      } catch (const c10::Error& error) {
        const bool for_memory = ledger::is_out_of_memory(error);
        log_warning("not timed, " + run.name + ": " +
                    (for_memory ? "the GPU has no memory for it" : std::string(error.what_without_backtrace())));
      }
      placement.cuda->synchronize();
      placement.cuda->release_cached();
    }
  }
  TableHead measured = head;
  measured.gap_seconds = seconds_of_a_gap(placement, hold);
  measured.launch_seconds = seconds_of_a_launch(cuda_kernels, placement);
  return table_of(measured, all);
}

}  // namespace fathom::play
