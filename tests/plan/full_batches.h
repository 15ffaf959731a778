// What a search asks of a run without data.
#pragma once

#include <algorithm>

#include "config/run_config.h"
#include "plan/plan.h"
#include "schedule/steps.h"

namespace fathom::plan::testing {

// A first micro-batch and a later one, each full.
inline Workload full_batches(const config::RunConfig& run) {
  Workload workload;
  const schedule::BatchShape batch = schedule::whole_batch(run.per_device_train_batch_size, run.max_length);
  workload.steps = {schedule::StepShape(std::min<int64_t>(2, run.gradient_accumulation_steps), batch)};
  workload.capacity_tokens = batch.rows * batch.length;
  return workload;
}

}  // namespace fathom::plan::testing
