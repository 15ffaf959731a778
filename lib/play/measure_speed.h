// How fast this CPU trains: steps of small models, their time split by kind of work.
#pragma once

#include <functional>
#include <vector>

#include "plan/time/calibration.h"
#include "train/trainer.h"

namespace fathom::play {

// Trains models of several widths in FP32 and in BF16, with one thread and with as many as there are now, some seconds
// in all. placement: the real CPU. watch: hears of every result as it comes; may be empty. Leaves the number of threads
// as it was.
std::vector<plan::MeasuredSpeed> measure_speeds(const train::Placement& placement,
                                                const std::function<void(const plan::MeasuredSpeed&)>& watch = nullptr);

}  // namespace fathom::play
