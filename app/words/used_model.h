// The model that a folder on the command line means: a model's own, an adapter's with its base, a run's.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/run_config.h"

namespace fathom::app {

struct UsedModel {
  std::string model;              // model_name_or_path: `subject` itself, or the base that its adapter names
  std::filesystem::path adapter;  // `subject`, if it holds an adapter and no model; else empty
  std::filesystem::path run;  // the config.yaml that it was trained by, in it or, for a checkpoint, above; else empty
};

// Of anything but a folder nothing is known but its name. Without its base an adapter may be used on another. Throws
// UsageError for the folder of a run without a final model, naming its newest checkpoint, and for an adapter that names
// no base.
UsedModel find_used_model(const std::string& subject, bool with_base = true);

// Throws UsageError for what a command cannot take as its model, with what it takes instead: an adapter's folder, and,
// of those that do more than plan, a name for a shape alone (configs/models, 7B).
void refuse_no_model(const std::string& command, const std::string& model);

// The run that its config.yaml describes; nothing where there is no such file, or where it is another tool's.
std::optional<config::RunConfig> run_behind(const UsedModel& used);

// The overrides and those settings of the run that say how its base is stored or its weights are rounded (load_in_4bit
// and the like, qat), but for keys that the overrides name.
std::vector<std::string> with_storage_of(const config::RunConfig& run, std::vector<std::string> overrides);

}  // namespace fathom::app
