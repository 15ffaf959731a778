// Which of a base's parameters are trained whole: all of them, or under LoRA those of modules_to_save. No torch header.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "model/shape.h"

namespace fathom::model {

// Names, as parameter_specs has them, of the parameters of every module whose name ends with one of `modules`, as PEFT
// matches them: "norm" is each norm of each layer too. A tied head is the embedding under another name. Throws
// UsageError for one that matches no module, and for a module that gets an adapter (targets: as adapted_modules takes
// them).
std::set<std::string> saved_parameters(const ModelShape& shape, const std::vector<std::string>& modules,
                                       const std::vector<std::string>& targets);

// The same of a run; of full training every parameter.
std::set<std::string> trained_base(const ModelShape& shape, const config::RunConfig& run);

// Elements of the parameters that a run trains without an adapter.
int64_t trained_base_count(const ModelShape& shape, const config::RunConfig& run);

}  // namespace fathom::model
