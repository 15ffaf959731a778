// What a run holds from before its first step to its end, exactly, and what making it takes.
#pragma once

#include <vector>

#include "arch/architecture.h"
#include "arch/parameter_table.h"
#include "config/run_config.h"
#include "footprint/footprint.h"
#include "footprint/optimizer.h"
#include "plan/plan.h"

namespace fathom::plan {

std::vector<footprint::TrainedSizes> trained_sizes(const arch::ParameterTable& parameters);

// Weights, optimizer states, the ring of batches, workspaces of libraries.
footprint::Tensors standing(const arch::Architecture& architecture, const config::RunConfig& run, const Target& target,
                            const Workload& workload, const arch::ParameterTable& parameters);

// Parts of a base while it is quantized, or its first step sizes are found.
std::vector<footprint::Tensors> loading(const arch::Architecture& architecture, const config::RunConfig& run,
                                        const Target& target, const arch::ParameterTable& parameters);

}  // namespace fathom::plan
