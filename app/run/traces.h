// The caching allocator's events of a run (`train --trace`) held against those of its plan (`--planned-trace`).
#pragma once

#include <optional>

#include "app/invocation.h"
#include "app/run/session.h"
#include "ledger/compare_traces.h"
#include "schedule/inputs.h"
#include "schedule/schedule.h"
#include "train/loop.h"

namespace fathom::app {

class PlannedEvents {
 public:
  // Where the invocation names a file for them, plays the whole run from `start` on a phantom of the session's GPU. Of
  // a run whose order is too long, or whose answers tell how many passes they take, a warning says that they are not
  // planned. Every rank makes one, and waits for the others. planned: as plan_of has it.
  PlannedEvents(const arch::Run& planned, const schedule::RunInputs& inputs, const schedule::Start& start,
                const Session& session, const Invocation& invocation);

  // Ends the run's trace. Events of segments count where a phantom hands out the addresses that it was planned with.
  // Unset: none were planned, or the run ended before its plan.
  std::optional<ledger::EventComparison> compare(const train::RunResult& result) const;

 private:
  const Session& session_;
  const Invocation& invocation_;
  bool are_there_ = false;
};

}  // namespace fathom::app
