// Applies the techniques once more, and takes back one after the other.
#include "plan/advice/reasons.h"

#include <algorithm>

#include "config/checks.h"
#include "config/keys.h"
#include "plan/advice/remedies.h"
#include "plan/estimate/analytic.h"
#include "plan/host.h"
#include "plan/time/communication.h"
#include "schedule/inputs.h"

namespace fathom::plan {
namespace {

using config::RunConfig;

void reckon_without(Reason& reason, const Question& question, const Combination& advised) {
  RunConfig config = advised.run;
  for (const std::string& key : reason.keys) config::find_key(key)->copy(question.run.config, config);
  if (!config::is_consistent(config)) return;
  const arch::Run without = arch::resolve(config, question.run.architecture);
  const Workload workload = question.workload_of(without);
  reason.peak_without = estimate_analytic(without, target_of(question.target, without), workload).peak;
  const auto throughput = question.throughput ? question.throughput(without) : std::nullopt;
  if (!throughput) return;
  const schedule::StepShape step = longest_step(without, workload.steps);
  const StepArithmetic arithmetic = estimate_arithmetic(without, step);
  const ExpectedTime time = expected_step_time(without, step, arithmetic, *throughput);
  const double computing = advised.lack * time.computing().seconds();
  reason.seconds_without =
      computing + time.exposed_seconds + exposed_host_seconds(host_traffic(without), computing, *throughput);
}

}  // namespace

std::vector<Reason> reasons(const Question& question, const Combination& advised) {
  std::vector<Reason> found;
  RunConfig run = question.run.config;
  for (const Technique& row : techniques(question.run, question.target)) {
    const auto& names = advised.techniques;
    if (std::find(names.begin(), names.end(), row.name) == names.end()) continue;
    const auto changed = row.apply(run);
    if (!changed) continue;
    Reason reason{{}, row.name, row.note, {}, {}};
    for (const config::Key& key : config::keys()) {
      const bool set = key.get(*changed) != key.get(run) && key.get(advised.run) != key.get(question.run.config);
      if (set && config::applies(key.name, advised.run)) reason.keys.emplace_back(key.name);
    }
    run = *changed;
    if (reason.keys.empty()) continue;
    reckon_without(reason, question, advised);
    found.push_back(std::move(reason));
  }
  return found;
}

}  // namespace fathom::plan
