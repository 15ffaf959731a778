// The day of a run: what its chat template's strftime_now tells, from the first step to the last.
#pragma once

#include <chrono>
#include <string>

#include "config/run_config.h"

namespace fathom::schedule {

// The day, as "2026-11-22", on which the run began that resume_from_checkpoint names, as its checkpoints have it; today
// where it names none, or they do not say.
std::string date_of_run(const config::RunConfig& config);
// Its first second, on the wall's clock.
std::chrono::local_seconds start_of_day(const std::string& date);

}  // namespace fathom::schedule
