// `fathom estimate --each FILE`: many plans of one model and its data, each with settings of its own.
#pragma once

#include <optional>

#include "app/commands/estimate.h"
#include "app/session.h"
#include "plan/plan.h"
#include "schedule/inputs.h"

namespace fathom::app {

// What a run without data or with these plays: batches of max_length, accumulated as the config says, or the data's.
// played: as schedule::make_schedule has it.
plan::Workload estimated_workload(const config::RunConfig& config, const schedule::RunInputs& inputs, int64_t played);

// One JSON object for each line of the file, in its order.
int estimate_each(const Estimate& invocation, const Session& session, const schedule::RunInputs& inputs,
                  const std::optional<config::GpuSpec>& gpu);

}  // namespace fathom::app
