#include "tests/phantom_gpu/gpu_probe/training.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <chrono>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json_value.h"
#include "ledger/cuda.h"
#include "train/trainer.h"

namespace fathom::phantom {
namespace {

using Entry = c10::cuda::CUDACachingAllocator::TraceEntry;

arch::Architecture architecture_named(const std::string& name) {
  arch::Architecture architecture;
  architecture.family = "LlamaForCausalLM";
  if (name == "small") {
    architecture.vocab_size = 32000;
    architecture.hidden_size = 1024;
    architecture.layers.assign(
        4, {.mixer =
                arch::Attention{.heads = 16, .key_value_heads = 4, .head_dim = 64, .rotary = arch::Rotary{.width = 64}},
            .feed_forward = {.width = 2816}});
  } else if (name == "70B") {
    architecture.vocab_size = 128256;
    architecture.hidden_size = 8192;
    architecture.layers.assign(
        80,
        {.mixer =
             arch::Attention{.heads = 64, .key_value_heads = 8, .head_dim = 128, .rotary = arch::Rotary{.width = 128}},
         .feed_forward = {.width = 28672}});
    architecture.max_position_embeddings = 8192;
  } else {
    throw Error("no shape '" + name + "'");
  }
  return architecture;
}

// Compares, at each event, what the ledger had counted after the event before it with what the allocator has counted
// now: an event is traced before the allocator's own statistics change. Remembers the sizes of each step's requests.
struct Comparison {
  explicit Comparison(ledger::CudaDevice& device) : cuda(device) {}

  ledger::CudaDevice& cuda;
  int64_t events = 0, differences = 0;
  std::optional<int64_t> live_before;
  std::vector<size_t> requests, requests_of_last_step;

  void attach() {
    c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker([this](const Entry& entry) {
      if (entry.action_ != Entry::ALLOC && entry.action_ != Entry::FREE_COMPLETED) return;
      events++;
      if (entry.action_ == Entry::ALLOC) requests.push_back(entry.size_);
      if (live_before && *live_before != cuda.statistics().requested) differences++;
      live_before = cuda.ledger().live_bytes();
    });
  }
};

int64_t process_status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  }
  throw Error("/proc/self/status has no " + key);
}

config::RunConfig config_of(const Json& request) {
  config::RunConfig config;
  config.dtype = dtype_from_name(request.at("dtype").get<std::string>());
  config.bf16 = request.at("bf16");
  config.gradient_checkpointing = request.at("gradient_checkpointing");
  if (request.at("lora")) config.method = config::Method::kLora;
  return config;
}

}  // namespace

Json play_training(const Json& request) {
  ledger::CudaDevice& cuda = cuda_device();
  const int64_t rows = request.at("rows"), length = request.at("length");
  data::Batch batch;  // its shape alone: nothing is read on a phantom
  batch.rows = rows;
  batch.length = length;
  batch.target_count = batch.token_count = rows * length;
  // Lives as long as the allocator, which keeps its address.
  auto& comparison = *new Comparison(cuda);
  if (request.at("compare")) comparison.attach();

  const int64_t resident_before = process_status_bytes("VmRSS");
  const auto start = std::chrono::steady_clock::now();
  Json ends = Json::array();
  bool last_steps_equal = false;
  {
    train::Trainer trainer(arch::resolve(config_of(request), architecture_named(request.at("shape"))), rows * length,
                           {.device = at::Device(at::kCUDA, 0), .ledger = &cuda.ledger(), .cuda = &cuda});
    trainer.model().initialise(1);
    trainer.loaded();
    for (int64_t step = 0; step < request.at("steps"); step++) {
      comparison.requests.clear();
      trainer.step({&batch, 1}, 1e-4);
      ends.push_back({cuda.ledger().live_bytes(), cuda.statistics().requested});
      last_steps_equal = comparison.requests == comparison.requests_of_last_step;
      comparison.requests_of_last_step = comparison.requests;
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const int64_t resident_growth = process_status_bytes("VmHWM") - resident_before;
  const auto statistics = cuda.statistics();
  cuda.clear_workspaces();
  return {{"events", comparison.events},
          {"differences", comparison.differences},
          {"ends", ends},
          {"last_steps_equal", last_steps_equal},
          {"requests", comparison.requests_of_last_step.size()},
          {"peak_requested", statistics.peak_requested},
          {"peak_allocated", statistics.peak_allocated},
          {"peak_reserved", statistics.peak_reserved},
          {"peak_live", cuda.ledger().memory().peak},
          {"kernels", cuda.ledger().memory().maximum[memory::Component::kKernels]},
          {"left", {cuda.ledger().live_bytes(), cuda.statistics().requested}},
          {"seconds", seconds.count()},
          {"resident_growth_bytes", resident_growth}};
}

}  // namespace fathom::phantom
