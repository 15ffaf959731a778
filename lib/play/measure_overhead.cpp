// Runs a reference model and asks the driver.
#include "play/measure_overhead.h"

#include <algorithm>

#include "data/batch.h"

namespace fathom::play {
namespace {

// Heads of 128, as most models have them; the rest is small.
arch::Architecture reference_architecture(bool narrow) {
  arch::Architecture architecture;
  architecture.family = "LlamaForCausalLM";
  architecture.hidden_size = 1024;
  architecture.vocab_size = 4096;
  architecture.layers.assign(
      2, {.attention = {.heads = 8, .key_value_heads = 4, .head_dim = 128, .rotary = arch::Rotary{.width = 128}},
          .feed_forward = {.width = 2816}});
  architecture.dtype = narrow ? DType::kBF16 : DType::kF32;
  return architecture;
}

}  // namespace

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

int64_t measure_overhead(config::RunConfig run, const train::Placement& placement) {
  constexpr int64_t kRows = 2, kLength = 512;
  constexpr int kSteps = 3;  // with evaluation, all kernels that a run launches
  run.random_init = true;
  const arch::Architecture architecture = reference_architecture(run.bf16);
  train::Trainer trainer(run, architecture, kRows * kLength, placement);
  trainer.model().initialise(1);
  trainer.loaded();
  data::Batch batch;
  batch.rows = kRows;
  batch.length = kLength;
  batch.token_count = batch.target_count = kRows * kLength;
  batch.ids.resize(static_cast<size_t>(kRows * kLength));
  for (size_t i = 0; i < batch.ids.size(); ++i) batch.ids[i] = static_cast<int64_t>(i * 7) % architecture.vocab_size;
  batch.targets = batch.ids;
  for (int step = 0; step < kSteps; ++step) trainer.step(std::span(&batch, 1), 1e-4);
  trainer.evaluate(std::span(&batch, 1));
  placement.cuda->synchronize();
  const int64_t used = placement.cuda->total_bytes() - placement.cuda->free_bytes();
  return std::max<int64_t>(0, used - placement.cuda->statistics().reserved);
}

}  // namespace fathom::play
