// From settings and a model to what follows of both.
#include "arch/run.h"

#include <string>
#include <utility>

#include "arch/storage_schemes.h"
#include "base/error.h"
#include "config/shards.h"

namespace fathom::arch {

Run resolve(config::RunConfig config, Architecture architecture) {
  Run run;
  run.config = std::move(config);
  run.architecture = std::move(architecture);
  if (config::row_of(run.config.objective).learns_preferences()) {  // as with TRL's disable_dropout
    run.architecture.dropout = run.architecture.embedding_dropout = run.architecture.inner_dropout = 0;
  }
  run.precision = precision_of(run.config, run.architecture.dtype_in_use());
  run.settings.dtype = run.precision.stored;
  run.settings.base_scheme = base_scheme(run.config, run.architecture.quantized);
  run.settings.fake_scheme = fake_scheme(run.config.qat, run.architecture);
  const bool rounds = run.settings.fake_scheme.has_value(), adapts = run.config.method == config::Method::kLora;
  if (adapts) {
    const config::RunConfig& asked = run.config;
    run.settings.lora =
        LoraOptions{asked.lora_r,     asked.lora_alpha,      asked.lora_dropout,     asked.target_modules,
                    asked.use_rslora, asked.modules_to_save, asked.target_parameters};
  }
  run.parameters = parameter_table(run.architecture, run.settings);
  if (config::is_shared(run.config)) {
    run.gathered_casts = {run.precision.autocast, !rounds};
  } else if (adapts && !rounds) {
    run.adapter_casts = run.precision.autocast;
  }
  return run;
}

void refuse_training_codes(const Run& run) {
  if (!run.architecture.quantized) return;
  const quant::Scheme scheme = run.architecture.quantized->scheme;
  const std::string stored = std::string("the model's folder stores its ") + arch::coded_parts(scheme) + " in " +
                             std::string(quant::name_of(scheme));
  const std::string remedy = ", or name the folder before it was quantized";
  if (run.config.method != config::Method::kLora) {
    throw UsageError("method: full trains every weight, but " + stored, "set method: lora" + remedy);
  }
  if (run.config.random_init) {
    throw UsageError("random_init: true draws every weight, but " + stored, "remove random_init" + remedy);
  }
  if (run.config.qat != config::Qat::kNone) {
    throw UsageError("qat trains weights that are rounded, but " + stored, "remove qat" + remedy);
  }
  for (const ParameterRow& row : run.parameters.rows) {
    if (!row.spec.may_be_coded_in(scheme) || !row.trained) continue;
    throw UsageError("modules_to_save trains " + row.spec.name + ", but " + stored,
                     "remove the module from modules_to_save" + remedy);
  }
}

}  // namespace fathom::arch
