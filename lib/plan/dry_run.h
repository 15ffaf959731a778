// Plays a run's steps with the trainer itself on a device that is not there: the phantom device, or CUDA over stubs.
#pragma once

#include <vector>

#include "config/run_config.h"
#include "model/shape.h"
#include "plan/plan.h"
#include "plan/workload.h"
#include "train/trainer.h"
#include "weights/folder.h"

namespace fathom::plan {

struct DryRun {
  ledger::Memory memory;
  ledger::Timeline timeline;  // of the step with the largest peak
  // Of the step with the most of it, as its operators were dispatched; micro-batches beyond those that are played (see
  // train::maximal_shapes) count as the last one.
  Arithmetic arithmetic;
  int64_t steps_played = 0;
};

// Each step is repeated until two successive plays of it agree in every figure, at most kMostRepetitions times; throws
// Error if they never do. folder: its weights are loaded as the run would (nothing is read on a phantom); null, or
// without weights: the model is initialised instead.
inline constexpr int kMostRepetitions = 6;
DryRun dry_run(const config::RunConfig& config, const model::ModelShape& shape, const weights::ModelFolder* folder,
               const Workload& workload, const train::Placement& placement);

// The same on the phantom device, which stands in for the CPU.
DryRun dry_run_cpu(const config::RunConfig& config, const model::ModelShape& shape, const weights::ModelFolder* folder,
                   const Workload& workload);

}  // namespace fathom::plan
