// What a run is about to do, and what it has come to, for people.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "config/run_config.h"
#include "dist/group.h"
#include "ledger/compare_traces.h"
#include "plan/plan.h"
#include "schedule/inputs.h"
#include "train/loop.h"

namespace fathom::app {

// What is about to be done, in the numbers that a user thinks in.
std::string describe_run(const config::RunConfig& config, const schedule::RunInputs& inputs,
                         const std::optional<checkpoint::Checkpoint>& resume);

// How the losses went, and where the result lies.
void print_outcome(const train::RunResult& result, const config::RunConfig& config);
// The commands that use the result.
void print_next(const config::RunConfig& config, const schedule::RunInputs& inputs);

// Planned and measured bytes of each process at its peak, how they agree where not as the first's, and its events where
// there are any. Every rank calls it; the first prints.
void print_processes(const plan::Comparison& comparison, const std::optional<ledger::EventComparison>& events,
                     dist::Group& group, bool stopped_early);

}  // namespace fathom::app
