// A run's workload from the shapes of its batches.
#pragma once

#include "arch/run.h"
#include "plan/plan.h"
#include "schedule/schedule.h"

namespace fathom::plan {

// What decides the memory of a run in this order.
Workload make_workload(const arch::Run& run, schedule::Schedule schedule);

// Tokens of the longest sequence of a workload; a run reserves positions for it, as its dry run does.
int64_t longest_sequence(const Workload& workload);

}  // namespace fathom::plan
