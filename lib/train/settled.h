// Whether a run in FP16 has found the loss scale that it needs.
#pragma once

#include <cstdint>

#include "config/run_config.h"
#include "train/trainer.h"

namespace fathom::train {

// Throws Error where a run ends while steps are skipped: in FP32 it would have ended at the first of them, and its
// model is not what was asked for; where every step was skipped, it is the one that it began with. steps: of the run.
void require_settled(const config::RunConfig& config, const Trainer& trainer, int64_t steps);

}  // namespace fathom::train
