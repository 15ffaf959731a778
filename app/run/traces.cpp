// Plans events, and compares them.
#include "app/run/traces.h"

#include <limits>

#include "app/run/planning.h"
#include "app/waiting.h"
#include "base/log.h"
#include "plan/estimate/workload.h"
#include "schedule/schedule.h"

namespace fathom::app {

PlannedEvents::PlannedEvents(const arch::Run& planned, const schedule::RunInputs& inputs, const schedule::Start& start,
                             const Session& session, const Invocation& invocation)
    : session_(session), invocation_(invocation) {
  if (invocation.planned_trace.empty()) return;
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  const schedule::Schedule schedule =
      schedule::make_schedule(planned, inputs.train, inputs.validation, start, kAll, session.placement.rank());
  are_there_ = schedule.all_events && schedule.answers.empty();
  if (are_there_) {
    const Waiting waiting("planning each event");
    const play::Subject subject{planned, *inputs.folder, plan::make_workload(planned, schedule)};
    const OwnGpu own = own_gpu(session, invocation);
    play::plan_events(subject, beside_communicators({.gpu = own.gpu, .taken_bytes = own.taken_bytes}, planned.config),
                      ask_phantom_children(), invocation.planned_trace.string());
  } else {
    log_warning(std::string("the events of this run are not planned: ") +
                (schedule.all_events ? "its answers tell how many passes they take" : "there are too many"));
  }
  if (session.placement.group != nullptr) session.placement.group->meet_after_files();
}

std::optional<ledger::EventComparison> PlannedEvents::compare(const train::RunResult& result) const {
  if (!are_there_ || result.signal != 0 || result.stopped_early) return std::nullopt;
  session_.placement.cuda->trace_to({});
  const bool same_addresses = session_.phantom && invocation_.placement == 0 && invocation_.segments.empty();
  return ledger::compare_traces(invocation_.planned_trace, invocation_.trace, same_addresses);
}

}  // namespace fathom::app
