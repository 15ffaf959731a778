// What the keys of precision say together.
#pragma once

#include <optional>

#include "config/run_config.h"

namespace fathom::config {

// Autocast's, nullopt where it is off: then products are in the type of the weights.
inline std::optional<DType> autocast_dtype(const RunConfig& run) {
  if (run.bf16) return DType::kBF16;
  if (run.fp16) return DType::kF16;
  return std::nullopt;
}

// True for full training whose weights in BF16 are rounded to nearest: updates smaller than their last digits are lost,
// and at usual rates most are (docs/optimizers.md). Plans warn of it and never propose it.
inline bool rounds_weights_to_nearest(const RunConfig& run) {
  return run.method == Method::kFull && run.dtype == DType::kBF16 && run.master_weights == MasterWeights::kNone;
}

}  // namespace fathom::config
