// From settings and a model to what follows of both.
#include "arch/run.h"

#include <utility>

#include "config/shards.h"

namespace fathom::arch {

Run resolve(config::RunConfig config, Architecture architecture) {
  Run run;
  run.config = std::move(config);
  run.architecture = std::move(architecture);
  run.precision = precision_of(run.architecture, run.config);
  run.settings = parameter_settings(run.architecture, run.config);
  run.parameters = parameter_table(run.architecture, run.settings);
  const bool rounds = run.settings.fake_scheme.has_value(), adapts = run.config.method == config::Method::kLora;
  if (config::is_shared(run.config)) {
    run.gathered_casts = {run.precision.autocast, !rounds};
  } else if (adapts && !rounds) {
    run.adapter_casts = run.precision.autocast;
  }
  return run;
}

}  // namespace fathom::arch
