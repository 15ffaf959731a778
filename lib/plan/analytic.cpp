// From a run's settings to the account of its largest instant.
#include "plan/analytic.h"

#include <set>
#include <string>

#include "base/bytes.h"
#include "plan/analytic_step.h"

namespace fathom::plan {

int64_t adapter_parameter_count(const model::ModelShape& shape, const config::RunConfig& run) {
  if (run.method != config::Method::kLora) return 0;
  const std::vector<std::string> modules = model::adapted_modules(shape, run.target_modules);
  const std::set<std::string> adapted(modules.begin(), modules.end());
  int64_t count = 0;
  for (const model::ParameterSpec& spec : model::parameter_specs(shape)) {
    const std::string module = spec.name.substr(0, spec.name.rfind('.'));
    if (!spec.is_matrix() || !adapted.contains(module)) continue;  // biases have no adapter
    const int64_t sides = checked_add(spec.shape.at(0), spec.shape.at(1), module);
    count = checked_add(count, checked_multiply(sides, run.lora_r, module), module);
  }
  return count;
}

Analytic estimate_analytic(const model::ModelShape& shape, const config::RunConfig& run, const Target& target,
                           const Workload& workload) {
  AccountOfRun account(shape, run, target, workload);
  for (const train::StepShape& step : workload.steps) account.step(step);
  for (const train::BatchShape& batch : workload.evaluations) account.evaluation(batch);
  return account.largest();
}

}  // namespace fathom::plan
