// What a run holds from before its first step to its end, exactly, and what making it takes.
#pragma once

#include <vector>

#include "arch/run.h"
#include "footprint/footprint.h"
#include "footprint/optimizer.h"
#include "plan/plan.h"

namespace fathom::plan {

std::vector<footprint::TrainedSizes> trained_sizes(const arch::ParameterTable& parameters);

// Weights, optimizer states, the ring of batches, workspaces of libraries.
footprint::Tensors standing(const arch::Run& run, const Target& target, const Workload& workload);

// Parts of a base while it is quantized, or its first step sizes are found.
std::vector<footprint::Tensors> loading(const arch::Run& run, const Target& target);

}  // namespace fathom::plan
