// What becomes of `strategy: auto`: ddp where its plan fits every process of the run, else fsdp.
#pragma once

#include <functional>

#include "config/run_config.h"
#include "dist/group.h"
#include "plan/plan.h"

namespace fathom::app {

// Plans this process's part of a run whose strategy is ddp or fsdp.
using PlanRun = std::function<plan::Plan(const config::RunConfig&)>;

// The plan of the run. Where its strategy is auto, it is planned with ddp first, set to what every rank then takes, and
// a line is logged of why. group: of the processes that plan together, each its own part; null: this one speaks for
// all. Throws UsageError where ddp does not fit and fsdp does not take the run as it is.
plan::Plan plan_with_strategy(config::RunConfig& run, dist::Group* group, const PlanRun& plan);

}  // namespace fathom::app
