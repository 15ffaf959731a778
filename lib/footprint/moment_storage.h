// How AdamW's two moments are stored: what the optimizer allocates and what plans count.
#pragma once

#include <cstdint>

#include "base/rounding.h"
#include "config/run_config.h"
#include "quant/dynamic.h"

namespace fathom::footprint {

enum class MomentStorage {
  kAsWeights,  // in the type of the weights
  kFp32,
  kBf16,
  k8bit,  // codes and scales of quant/dynamic.h; a small parameter's in FP32
};

// A smaller parameter's moments stay in FP32: bitsandbytes' min_8bit_size.
inline constexpr int64_t kFewestIn8bit = 4096;

// Of a run with one of the optimizers adamw, adamw_8bit and adamw_bf16.
constexpr MomentStorage moment_storage(config::Optimizer optimizer, config::MasterWeights masters) {
  if (optimizer == config::Optimizer::kAdamW8bit) return MomentStorage::k8bit;
  if (optimizer == config::Optimizer::kAdamWBf16) return MomentStorage::kBf16;
  switch (masters) {
    case config::MasterWeights::kFp32:
      return MomentStorage::kFp32;
    case config::MasterWeights::kStochastic:
      return MomentStorage::kBf16;
    case config::MasterWeights::kNone:
      break;
  }
  return MomentStorage::kAsWeights;
}

constexpr bool is_quantized(MomentStorage storage, int64_t elements) {
  return storage == MomentStorage::k8bit && elements >= kFewestIn8bit;
}

// Elements of a parameter whose moments have a scale in common, from the first on: where processes divide it, they do
// so between blocks.
constexpr int64_t block_of_moments(MomentStorage storage, int64_t elements) {
  return is_quantized(storage, elements) ? quant::kDynamicBlock : 1;
}

// Of the numbers themselves, without scales.
constexpr int64_t bytes_of_moment(MomentStorage storage, int64_t elements, int64_t weight_bytes) {
  switch (storage) {
    case MomentStorage::kAsWeights:
      return weight_bytes;
    case MomentStorage::kBf16:
      return 2;
    case MomentStorage::k8bit:
      return is_quantized(storage, elements) ? 1 : 4;
    case MomentStorage::kFp32:
      break;
  }
  return 4;
}

constexpr int64_t scales_of_moment(MomentStorage storage, int64_t elements) {
  return is_quantized(storage, elements) ? divide_up(elements, quant::kDynamicBlock) : 0;
}

// Of a run with any optimizer.
constexpr int64_t block_of_moments(const config::RunConfig& run, int64_t elements) {
  return config::row_of(run.optim).is_adamw ? block_of_moments(moment_storage(run.optim, run.master_weights), elements)
                                            : 1;
}

}  // namespace fathom::footprint
