// Learning rates by step, as transformers' get_scheduler gives them.
#pragma once

#include <cstdint>

#include "config/run_config.h"

namespace fathom::optim {

// The factor on learning_rate for 0-based `step` of `total_steps`. warmup_steps below 1 is a share of total_steps
// (rounded up); `constant` ignores warm-up.
double schedule_factor(config::Schedule schedule, int64_t step, int64_t total_steps, double warmup_steps);

}  // namespace fathom::optim
