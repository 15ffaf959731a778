// What a run is: its settings and its model, with all that follows of both, resolved once.
#pragma once

#include <optional>

#include "arch/architecture.h"
#include "arch/casts.h"
#include "arch/parameter_table.h"
#include "arch/precision.h"
#include "config/run_config.h"

namespace fathom::arch {

// Never changed: who wants other settings changes a copy of the config, and resolves that.
struct Run {
  config::RunConfig config;
  Architecture architecture;
  Precision precision;
  ParameterSettings settings;  // what the config says of parameters
  ParameterTable parameters;
  // Of which parameters casts are gathered in their place; none where a process has the whole model.
  Casts gathered_casts;
  // In which type copies of adapters stay beside them, if in any: under autocast, where linear layers multiply by them.
  std::optional<DType> adapter_casts;
};

// Throws UsageError where settings and the folder differ about codes, where codes do not fit the model's matrices, and
// as parameter_table does.
Run resolve(config::RunConfig config, Architecture architecture);

// Throws UsageError for a run that would train, or draw at random, what its folder stores in codes.
void refuse_training_codes(const Run& run);

}  // namespace fathom::arch
