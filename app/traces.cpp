// Where traces lie.
#include "app/traces.h"

#include <cstdio>

namespace fathom::app {

std::filesystem::path planned_trace(const std::filesystem::path& trace) { return trace.string() + ".planned"; }

bool plans_events(const plan::Workload& workload, const Session& session, const Invocation& invocation) {
  // How many passes answers take is the model's to say.
  return session.placement.cuda != nullptr && !invocation.trace.empty() && workload.schedule.answers.empty();
}

ledger::EventComparison compare_events(const Invocation& invocation, const Session& session) {
  std::fflush(nullptr);  // the run's trace is a stream of the C library, open until the process ends
  const bool same_addresses = session.phantom && invocation.placement == 0 && invocation.segments.empty();
  return ledger::compare_traces(planned_trace(invocation.trace), invocation.trace, same_addresses);
}

}  // namespace fathom::app
