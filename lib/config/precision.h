// The type in which a run's matrix products are computed where autocast casts for them.
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

}  // namespace fathom::config
