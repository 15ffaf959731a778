// What becomes of `strategy: auto`: ddp where its plan fits every process of the run, else fsdp.
#pragma once

#include <functional>

#include "arch/run.h"
#include "dist/group.h"
#include "plan/plan.h"

namespace fathom::app {

// Plans this process's part of a run whose strategy is ddp or fsdp.
using PlanRun = std::function<plan::Plan(const arch::Run&)>;

struct Planned {
  arch::Run run;  // whose strategy is ddp or fsdp
  plan::Plan plan;
};
// Where the strategy is auto, the run is planned with ddp first, then with what every rank takes, and a line is logged
// of why. group: of the processes that plan together, each its own part; null: this one speaks for all. Throws
// UsageError where ddp does not fit and fsdp does not take the run as it is.
Planned plan_with_strategy(arch::Run run, dist::Group* group, const PlanRun& plan);

config::RunConfig with_strategy(config::RunConfig config, config::Strategy strategy);

}  // namespace fathom::app
