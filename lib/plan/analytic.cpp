// From a run's settings to the account of its largest instant.
#include "plan/analytic.h"

#include <set>
#include <string>

#include "base/bytes.h"
#include "plan/analytic_step.h"

namespace fathom::plan {

Analytic estimate_analytic(const arch::ModelShape& shape, const config::RunConfig& run, const Target& target,
                           const Workload& workload) {
  AccountOfRun account(shape, run, target, workload);
  for (const train::StepShape& step : workload.steps) account.step(step);
  for (const train::BatchShape& batch : workload.evaluations) account.evaluation(batch);
  return account.largest();
}

}  // namespace fathom::plan
