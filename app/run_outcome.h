// What a run has come to, on stdout.
#pragma once

#include <optional>

#include "dist/group.h"
#include "ledger/compare_traces.h"
#include "plan/plan.h"
#include "train/loop.h"

namespace fathom::app {

void print_outcome(const train::RunResult& result);

// Planned and measured bytes of each process at its peak, how they agree where not as the first's, and its events where
// there are any. Every rank calls it; the first prints.
void print_processes(const plan::Comparison& comparison, const std::optional<ledger::EventComparison>& events,
                     dist::Group& group, bool stopped_early);

}  // namespace fathom::app
