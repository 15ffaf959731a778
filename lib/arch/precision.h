// In which types a run stores and computes.
#pragma once

#include <optional>

#include "base/dtype.h"
#include "config/run_config.h"

namespace fathom::arch {

struct Precision {
  DType stored = DType::kF32;     // the base's weights that are no codes, and the residual stream
  DType computed = DType::kF32;   // products with them: autocast's type, else that of the weights
  std::optional<DType> autocast;  // unset: off
};

// Weights are stored as the config says, else in FP32 for full training; a frozen base as in the checkpoint, or in
// autocast's type where both have 16 bits: two such formats never meet.
// held: Architecture::dtype_in_use.
Precision precision_of(const config::RunConfig& run, DType held);

}  // namespace fathom::arch
