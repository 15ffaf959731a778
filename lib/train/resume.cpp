// Decides whether a run may continue from a checkpoint, and from which.
#include "train/resume.h"

#include <map>
#include <sstream>
#include <string>

#include "base/error.h"
#include "checkpoint/adapter.h"
#include "config/keys.h"
#include "config/load.h"
#include "train/base_identity.h"

namespace fathom::train {
namespace {

// Key by value of a config as YAML.
std::map<std::string, std::string> settings_of(const std::string& yaml) {
  std::map<std::string, std::string> settings;
  std::istringstream lines(yaml);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (colon != std::string::npos && line[0] != '#') settings[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return settings;
}

std::string default_of(const std::string& key) {
  const config::Key* known = config::find_key(key);
  return known == nullptr ? "unset" : known->get(config::RunConfig());
}

// The settings that differ between two runs, as "max_steps: 8 (there 6)". One that a run does not have, of an earlier
// version, was as its default.
std::string differing_settings(const std::string& here, const std::string& there) {
  std::map<std::string, std::string> ours = settings_of(here);
  const std::map<std::string, std::string> theirs = settings_of(there);
  for (const auto& [key, value] : theirs) ours.try_emplace(key, default_of(key));
  std::string text;
  for (const auto& [key, value] : ours) {
    const auto other = theirs.find(key);
    const std::string was = other == theirs.end() ? default_of(key) : other->second;
    if (value == was) continue;
    text.append(text.empty() ? "" : ", ").append(key).append(": ").append(value).append(" (there ").append(was);
    text.append(")");
  }
  return text;
}

void refuse_other_run(const checkpoint::Checkpoint& found, const config::RunConfig& config, const RunInputs& inputs) {
  const std::string remedy = "; resume with those of that run, or start a new one in another output_dir";
  const std::string differing = differing_settings(steps_identity(config), found.state().value("config", ""));
  if (!differing.empty()) {
    throw UsageError(found.folder().string() + " was saved under other settings: " + differing + remedy);
  }
  const std::string base = base_identity(config, *inputs.folder);
  if (found.state().value("base", base) != base) {
    throw UsageError(found.folder().string() + " was saved over another base model than is now in " +
                     inputs.folder->path().string() + ": its config.json or its weights have changed" +
                     "; put that model back, or start a new run in another output_dir");
  }
  if (found.state().value("data", "") != inputs.train.fingerprint()) {
    throw UsageError(found.folder().string() +
                     " was saved on other data: what train_file names"
                     " or its tokenizer has changed" +
                     remedy);
  }
}

// With `auto` and no sound checkpoint a run starts anew: only where that loses nothing.
void refuse_results_without_checkpoint(const std::filesystem::path& folder) {
  std::string held;
  if (std::filesystem::exists(folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      const bool result =
          name.starts_with("checkpoint-") || checkpoint::is_set_aside(entry.path()) || name.ends_with(".safetensors");
      if (result && held.empty()) held = entry.path().string();
    }
  }
  if (held.empty()) return;
  throw Error("resume_from_checkpoint is auto, but " + folder.string() +
                  " has no sound checkpoint to continue from, and holds " + held,
              "choose another output_dir, or remove that folder to start anew");
}

}  // namespace

std::string steps_identity(config::RunConfig config) {
  const config::RunConfig plain;
  config.output_dir = plain.output_dir;
  config.resume_from_checkpoint = plain.resume_from_checkpoint;
  config.logging_steps = plain.logging_steps;
  config.eval_strategy = plain.eval_strategy;
  config.eval_steps = plain.eval_steps;
  config.eval_on_start = plain.eval_on_start;
  config.validation_file = plain.validation_file;
  config.per_device_eval_batch_size = plain.per_device_eval_batch_size;
  config.save_strategy = plain.save_strategy;
  config.save_steps = plain.save_steps;
  config.save_total_limit = plain.save_total_limit;
  config.load_best_model_at_end = plain.load_best_model_at_end;
  config.early_stopping_patience = plain.early_stopping_patience;
  config.report_to = plain.report_to;
  config.save_in_background = plain.save_in_background;
  config.num_threads = plain.num_threads;
  config.memory_budget = plain.memory_budget;
  return config::to_yaml(config);
}

std::optional<checkpoint::Checkpoint> find_resume(const config::RunConfig& config, const RunInputs& inputs,
                                                  bool phantom) {
  if (config.resume_from_checkpoint.empty()) return std::nullopt;
  const bool automatic = config.resume_from_checkpoint == "auto";
  const std::filesystem::path from = automatic ? config.output_dir : config.resume_from_checkpoint;
  if (!phantom) weights::refuse_phantom(from);
  std::optional<checkpoint::Checkpoint> found;
  if (automatic) {
    found = checkpoint::find_newest(from);
  } else {
    found.emplace(from);
  }
  if (!found) {
    refuse_results_without_checkpoint(from);
    if (!config.adapter_name_or_path.empty()) checkpoint::refuse_other_adapter(config, inputs.shape);
    return std::nullopt;
  }
  if (phantom && !weights::is_phantom(found->folder())) {
    throw UsageError(found->folder().string() + " is of a real run, which a phantom GPU cannot continue",
                     "choose another output_dir for --phantom-gpu");
  }
  if (checkpoint::is_set_aside(found->folder()) && continues_in_place(config, found)) {
    throw UsageError(found->folder().string() + " is of a branch that the run in this folder has left",
                     "choose another output_dir to go on from it");
  }
  refuse_other_run(*found, config, inputs);
  return found;
}

bool continues_in_place(const config::RunConfig& config, const std::optional<checkpoint::Checkpoint>& resume) {
  std::error_code absent;
  return config.resume_from_checkpoint == "auto" ||
         (resume && std::filesystem::equivalent(std::filesystem::absolute(resume->folder()).parent_path(),
                                                config.output_dir, absent));
}

Start start_of(const config::RunConfig& config, const RunInputs& inputs,
               const std::optional<checkpoint::Checkpoint>& resume) {
  if (!resume) return {.evaluation_due = config.eval_on_start};
  const Json &state = resume->state(), &position = state.at("position");
  return {.step = state.at("step").get<int64_t>(),
          .position = {position.at("epoch").get<int64_t>(), position.at("index").get<int64_t>()},
          .evaluation_due = state.value("evaluation_due", false) && !inputs.validation.empty()};
}

Json observer_state(const checkpoint::Checkpoint& checkpoint) { return checkpoint.state().at("observer"); }

}  // namespace fathom::train
