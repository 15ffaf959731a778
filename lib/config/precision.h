// What the keys of precision say together.
#pragma once

#include "config/run_config.h"

namespace fathom::config {

// True for full training whose weights in BF16 are rounded to nearest: updates smaller than their last digits are lost,
// and at usual rates most are (docs/optimizers.md). Plans warn of it and never propose it.
inline bool rounds_weights_to_nearest(const RunConfig& run) {
  return run.method == Method::kFull && run.dtype == DType::kBF16 && run.master_weights == MasterWeights::kNone;
}

}  // namespace fathom::config
