// Runs a reference model and asks the driver.
#include "play/measure_overhead.h"

#include <algorithm>

#include "play/reference_model.h"

namespace fathom::play {

std::vector<plan::KernelSettings> all_kernel_settings() {
  std::vector<plan::KernelSettings> all;
  for (const bool narrow : {false, true}) {
    for (const auto attention : {config::Attention::kFlash, config::Attention::kMath}) {
      for (const auto method : {config::Method::kFull, config::Method::kLora}) {
        for (const bool checkpointing : {false, true}) all.push_back({narrow, attention, method, checkpointing});
      }
    }
  }
  return all;
}

int64_t measure_overhead(const config::RunConfig& run, const train::Placement& placement) {
  constexpr int kSteps = 3;  // with evaluation, all kernels that a run launches
  // Heads of 128, as most models have them; the rest is small.
  const ReferenceShape shape = {.width = 1024,
                                .heads = 8,
                                .key_value_heads = 4,
                                .head_dim = 128,
                                .feed_forward = 2816,
                                .vocabulary = 4096,
                                .dtype = run.bf16 ? DType::kBF16 : DType::kF32};
  ReferenceTraining training(run, shape, /*rows=*/2, /*length=*/512, placement);
  for (int step = 0; step < kSteps; ++step) training.step();
  training.evaluate();
  placement.cuda->synchronize();
  const int64_t used = placement.cuda->total_bytes() - placement.cuda->free_bytes();
  return std::max<int64_t>(0, used - placement.cuda->statistics().reserved);
}

}  // namespace fathom::play
