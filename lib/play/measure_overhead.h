// What a GPU's driver uses beneath the runtime interface: context, loaded modules, memory that libraries take by
// themselves.
#pragma once

#include <vector>

#include "plan/time/calibration.h"
#include "train/trainer.h"

namespace fathom::play {

// Every combination that has a record of its own.
std::vector<plan::KernelSettings> all_kernel_settings();

// Trains a small model with the run's precision, attention, method and checkpointing until its kernels are loaded, and
// returns the driver's used bytes less those that the caching allocator has reserved. The GPU must serve nobody else,
// and the process must be fresh: modules stay loaded. placement: on CUDA.
int64_t measure_overhead(const config::RunConfig& run, const train::Placement& placement);

}  // namespace fathom::play
