// The same functions on two devices.
#include "train/prove_kernels.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <string>

#include "base/error.h"
#include "ops/activation.h"
#include "ops/cross_entropy.h"
#include "ops/norm.h"
#include "ops/quantized/fp8_rows.h"
#include "ops/quantized/quantized_matrix.h"
#include "ops/rotary.h"
#include "optim/gradient_norm.h"
#include "optim/optimizer.h"

namespace fathom::train {
namespace {

// The same numbers for every device.
class Numbers {
 public:
  at::Tensor draw(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
    return at::randn(sizes, generator_, at::kFloat).to(type);
  }

 private:
  at::Generator generator_ = at::detail::createCPUGenerator(1);
};

constexpr double kRate = 0.2;     // of weights near 1: an update that is left out is seen
constexpr double kLimit = 5;      // to which gradients are clipped, which are longer
constexpr int64_t kOfSmall = 40;  // elements, of which no whole access of all begins at a multiple of 32 bytes
constexpr int64_t kLarge[] = {40003, 4099, 256, 1};

struct Kind {
  const char* name;
  at::ScalarType weights;
  config::Optimizer optim;
  config::MasterWeights masters = config::MasterWeights::kNone;
  int64_t small = 5;  // parameters
};

constexpr Kind kKinds[] = {
    {"adamw in FP32", at::kFloat, config::Optimizer::kAdamW, config::MasterWeights::kNone, 400},  // in two launches
    {"adamw in BF16", at::kBFloat16, config::Optimizer::kAdamW},
    {"adamw in BF16 with masters", at::kBFloat16, config::Optimizer::kAdamW, config::MasterWeights::kFp32},
    {"adamw with stochastic rounding", at::kBFloat16, config::Optimizer::kAdamW, config::MasterWeights::kStochastic},
    {"adamw_bf16", at::kFloat, config::Optimizer::kAdamWBf16},
    {"adamw_8bit in FP32", at::kFloat, config::Optimizer::kAdamW8bit},
    {"adamw_8bit in BF16", at::kBFloat16, config::Optimizer::kAdamW8bit, config::MasterWeights::kStochastic},
};

// The norm, the factor, the weights and the states.
std::vector<at::Tensor> updated(const Kind& kind, at::Device device) {
  config::RunConfig config;
  config.optim = kind.optim;
  config.master_weights = kind.masters;
  config.weight_decay = 0.1;
  std::vector<int64_t> sizes(kind.small, kOfSmall);
  sizes.insert(sizes.end(), std::begin(kLarge), std::end(kLarge));
  int64_t all = 0;
  for (const int64_t size : sizes) all += size;
  Numbers numbers;
  const auto drawn = [&] { return numbers.draw({all}, kind.weights).to(device); };
  const at::Tensor weights = drawn();
  std::vector<optim::OptimizedParameter> parameters;
  int64_t place = 0;
  for (const int64_t size : sizes) {
    at::Tensor tensor = weights.narrow(0, place, size);
    parameters.push_back({std::to_string(place), tensor.set_requires_grad(true), parameters.size() % 2 == 0});
    place += size;
  }
  const std::unique_ptr<optim::Optimizer> optimizer = optim::make_optimizer(config, parameters, nullptr);
  optim::GradientNorm norm;
  for (int step = 0; step < 2; ++step) {
    const at::Tensor gradient = drawn();
    std::vector<at::Tensor> gradients = gradient.split_with_sizes(sizes);
    for (size_t i = 0; i < gradients.size(); ++i) parameters[i].tensor.mutable_grad() = gradients[i];
    norm = optim::gradient_norm(gradients, kLimit, std::nullopt);
    optimizer->step(kRate, norm.factor);
  }
  std::vector<at::Tensor> ends = {norm.total, norm.factor, weights.detach()};
  for (const auto& [name, state] : optimizer->state()) ends.push_back(state);
  return ends;
}

// What a function of tensors makes of these, and their gradients for a drawn gradient of its first result.
std::vector<at::Tensor> with_gradients(
    const std::vector<at::Tensor>& drawn, at::Device device, Numbers& numbers,
    const std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>& of) {
  std::vector<at::Tensor> inputs, gradients;
  inputs.reserve(drawn.size());
  for (const at::Tensor& each : drawn) inputs.push_back(each.to(device).detach().set_requires_grad(true));
  std::vector<at::Tensor> results = of(inputs);
  gradients.reserve(results.size());
  for (const at::Tensor& result : results) {
    gradients.push_back(numbers.draw(result.sizes(), result.scalar_type()).to(device));
  }
  torch::autograd::backward(results, gradients);
  for (const at::Tensor& input : inputs) results.push_back(input.grad());
  for (at::Tensor& result : results) result = result.detach();
  return results;
}

std::vector<at::Tensor> normed(at::ScalarType type, at::Device device) {
  constexpr int64_t kTokens = 600, kWidth = 576;  // more rows than partial sums of the weight's gradient
  Numbers numbers;
  const std::vector<at::Tensor> drawn = {numbers.draw({kTokens, kWidth}, type), numbers.draw({kWidth}, type)};
  return with_gradients(drawn, device, numbers, [&](const std::vector<at::Tensor>& inputs) {
    const ops::NormedStream both = ops::norm_of_stream(inputs[0], {inputs[1]}, {}, type);
    return std::vector<at::Tensor>{both.normed_TD, both.stream_TD * 2};
  });
}

std::vector<at::Tensor> gated(at::ScalarType type, at::Device device) {
  Numbers numbers;
  const std::vector<at::Tensor> drawn = {numbers.draw({77, 136}, type), numbers.draw({77, 136}, type)};
  return with_gradients(drawn, device, numbers, [&](const std::vector<at::Tensor>& inputs) {
    return std::vector<at::Tensor>{ops::gated(Activation::kSilu, inputs[0], inputs[1])};
  });
}

std::vector<at::Tensor> turned(at::ScalarType type, at::Device device) {
  constexpr int64_t kLength = 37, kHead = 64;
  Numbers numbers;
  const at::Tensor angles = numbers.draw({kLength, kHead / 2});
  const ops::Turn turn{angles.cos().to(device), angles.sin().to(device)};
  return with_gradients(
      {numbers.draw({2, kLength, 3, kHead}, type)}, device, numbers,
      [&](const std::vector<at::Tensor>& inputs) { return std::vector<at::Tensor>{ops::rotate(inputs[0], turn)}; });
}

std::vector<at::Tensor> losses(at::ScalarType type, at::Device device) {
  constexpr int64_t kRows = 40, kVocabulary = 1003;
  Numbers numbers;
  at::Tensor logits_CV = numbers.draw({kRows, kVocabulary}, type).to(device);
  at::Tensor targets_C = at::arange(kRows) * 7;
  targets_C[3] = ops::kIgnoredTarget;
  at::Tensor loss = at::zeros({}, at::TensorOptions().device(device).dtype(at::kFloat));
  ops::add_cross_entropy(loss, logits_CV, targets_C.to(device), kRows, 2);
  return {loss, logits_CV};
}

std::vector<at::Tensor> dequantized(quant::Scheme scheme, at::Device device) {
  constexpr int64_t kSides[] = {96, 256};
  Numbers numbers;
  const at::Tensor values = numbers.draw(kSides);
  const auto empty = [&](at::Device on) {
    return ops::empty_quantized_matrix(scheme, kSides[0], kSides[1], on, ops::make_quant_tables(scheme, on));
  };
  const ops::QuantizedMatrix made = empty(at::kCPU), there = empty(device);
  ops::quantize(
      made, [&](int64_t first, const at::Tensor& part_RD) { part_RD.copy_(values.narrow(0, first, part_RD.size(0))); });
  const auto copy = [](const at::Tensor& to, const at::Tensor& from) {
    if (to.defined()) to.copy_(from);
  };
  copy(there.codes, made.codes);
  copy(there.scales, made.scales);
  copy(there.outer_scales, made.outer_scales);
  return {ops::dequantize(there, at::kFloat), ops::dequantize(there, at::kBFloat16)};
}

std::vector<at::Tensor> in_fp8(at::ScalarType format, at::Device device) {
  Numbers numbers;
  const at::Tensor x_TD = numbers.draw({33, 272}, at::kBFloat16), columns_D = numbers.draw({272}).abs();
  const ops::Fp8Rows rows = ops::quantize_rows_to_fp8(x_TD.to(device), format, columns_D.to(device));
  return {rows.codes_TD, rows.scales_T1};
}

struct Proof {
  std::string what;
  std::function<std::vector<at::Tensor>(at::Device)> on;
};

std::vector<Proof> proofs() {
  std::vector<Proof> all;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const std::string in = type == at::kFloat ? " in FP32" : " in BF16";
    const auto add = [&](const char* what, std::vector<at::Tensor> (*results)(at::ScalarType, at::Device)) {
      all.push_back({what + in, [results, type](at::Device device) { return results(type, device); }});
    };
    add("RMSNorm", normed);
    add("SwiGLU", gated);
    add("rotary positions", turned);
    add("the loss", losses);
  }
  for (const quant::SchemeRow& row : quant::schemes()) {
    all.push_back({"matrices in " + std::string(row.title),
                   [scheme = row.scheme](at::Device device) { return dequantized(scheme, device); }});
  }
  for (const at::ScalarType format : {at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
    all.push_back({"rows in FP8", [format](at::Device device) { return in_fp8(format, device); }});
  }
  for (const Kind& kind : kKinds) {
    all.push_back({kind.name, [&kind](at::Device device) { return updated(kind, device); }});
  }
  return all;
}

}  // namespace

// Each number, by what its type rounds off where what was rounded differs in its last bits: a code by one. Small
// numbers are held against the mean.
bool are_near(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
  const auto allowed = [](at::ScalarType type) {
    if (type == at::kFloat) return 1e-4;
    return type == at::kFloat8_e4m3fn || type == at::kFloat8_e5m2 ? 0.26 : 1.6e-2;
  };
  const auto near = [&](const at::Tensor& ours, const at::Tensor& theirs) {
    const at::Tensor wide = theirs.cpu().to(at::kDouble), size = wide.abs();
    const at::Tensor difference = (ours.cpu().to(at::kDouble) - wide).abs();
    const at::Tensor bound =
        ours.scalar_type() == at::kByte ? at::ones_like(wide) : (size + size.mean()) * allowed(ours.scalar_type());
    return difference.le(bound).all().item<bool>();
  };
  return std::equal(found.begin(), found.end(), expected.begin(), expected.end(), near);
}

void prove_kernels(at::Device device) {
  for (const Proof& proof : proofs()) {
    if (are_near(proof.on(device), proof.on(at::kCPU))) continue;
    throw Error("fathom's kernel for " + proof.what + " computes otherwise on this GPU than on a CPU",
                "set cuda_kernels: false; nothing was trained");
  }
}

}  // namespace fathom::train
