// What a search asks of a run without data.
#pragma once

#include <algorithm>

#include "arch/run.h"
#include "plan/plan.h"
#include "schedule/steps.h"

namespace fathom::plan::testing {

// A first micro-batch and a later one, each full.
inline Workload full_batches(const arch::Run& run) {
  Workload workload;
  const schedule::BatchShape batch =
      schedule::whole_batch(run.config.per_device_train_batch_size, run.config.max_length);
  workload.steps = {schedule::StepShape(std::min<int64_t>(2, run.config.gradient_accumulation_steps), batch)};
  workload.capacity_tokens = batch.rows * batch.length;
  return workload;
}

}  // namespace fathom::plan::testing
