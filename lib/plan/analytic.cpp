// From a run's settings to the account of its largest instant.
#include "plan/analytic.h"

#include <algorithm>

#include "base/bytes.h"
#include "plan/analytic_step.h"

namespace fathom::plan {

int64_t adapter_parameter_count(const model::ModelShape& shape, const config::RunConfig& run) {
  if (run.method != config::Method::kLora) return 0;
  std::vector<model::ParameterSpec> specs = model::parameter_specs(shape);
  int64_t count = 0;
  for (const std::string& module : model::adapted_modules(shape, run.target_modules)) {
    const auto weight = std::find_if(specs.begin(), specs.end(),
                                     [&](const model::ParameterSpec& spec) { return spec.name == module + ".weight"; });
    const int64_t sides = checked_add(weight->shape.at(0), weight->shape.at(1), module);
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
