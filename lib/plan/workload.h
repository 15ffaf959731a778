// A run's workload from the shapes of its batches. No torch header.
#pragma once

#include <vector>

#include "config/run_config.h"
#include "model/shape.h"
#include "plan/plan.h"
#include "train/steps.h"

namespace fathom::plan {

// What decides a run's memory. steps: those that can make its maxima (train::maximal_steps); evaluations: of the whole
// pass, in order (train::evaluation_shapes).
Workload make_workload(const config::RunConfig& config, const model::ModelShape& shape,
                       const std::vector<train::StepShape>& steps, const std::vector<train::BatchShape>& evaluations);

// Tokens of the longest sequence of a workload; a run reserves positions for it, as its dry run does.
int64_t longest_sequence(const Workload& workload);

}  // namespace fathom::plan
