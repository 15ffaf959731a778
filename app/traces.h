// The caching allocator's events of a run, as `train --trace` writes them, beside those that were planned.
#pragma once

#include <filesystem>

#include "app/invocation.h"
#include "app/session.h"
#include "ledger/compare_traces.h"
#include "plan/plan.h"

namespace fathom::app {

// Where the plan's events go: beside the run's, with ".planned" behind.
std::filesystem::path planned_trace(const std::filesystem::path& trace);

// Whether a plan of this workload writes its events too: where those of the run are traced, and all are known before.
bool plans_events(const plan::Workload& workload, const Session& session, const Invocation& invocation);

// Of this process's run and its plan; what the run's trace holds back is written out first. Events of segments count
// where a phantom hands out the addresses that it was planned with.
ledger::EventComparison compare_events(const Invocation& invocation, const Session& session);

}  // namespace fathom::app
