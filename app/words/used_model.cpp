// By the files in the folder.
#include "app/words/used_model.h"

#include <algorithm>

#include "app/words/known_models.h"
#include "base/count.h"
#include "base/error.h"
#include "base/json_value.h"
#include "base/path.h"
#include "config/keys.h"
#include "config/load.h"
#include "config/text.h"
#include "weights/hub.h"

namespace fathom::app {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCheckpoint = "checkpoint-";

// "checkpoint-372" of a run's folder, of the largest number; nothing if there is none.
std::optional<fs::path> newest_checkpoint(const fs::path& run) {
  std::optional<fs::path> newest;
  double steps = -1;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(run, failed)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kCheckpoint)) continue;
    const auto number = parse_count(name.substr(kCheckpoint.size()));
    if (!number || *number <= steps) continue;
    steps = *number;
    newest = entry.path();
  }
  return newest;
}

// The config.yaml of the run that a folder belongs to; empty if there is none.
fs::path run_of(const fs::path& folder) {
  const fs::path tidy = tidy_path(folder);
  const bool is_checkpoint = tidy.filename().string().starts_with(kCheckpoint);
  const fs::path config = (is_checkpoint ? tidy.parent_path() : folder) / "config.yaml";
  return fs::exists(config) ? config : fs::path();
}

std::string base_of(const fs::path& adapter) {
  const fs::path path = adapter / "adapter_config.json";
  const Json settings = read_json(path);
  const bool names = settings.is_object() && settings.contains("base_model_name_or_path") &&
                     settings["base_model_name_or_path"].is_string();
  std::string base = names ? settings["base_model_name_or_path"].get<std::string>() : "";
  const auto refuse = [&](const std::string& what) {
    throw UsageError(path.string() + ": " + what,
                     "name the base model where it is, and the adapter with --adapter " + adapter.string());
  };
  if (base.empty()) refuse("names no base_model_name_or_path");
  if (!config::is_printable_text(base)) {
    refuse("base_model_name_or_path, '" + config::printable(base) + "', is no path on one line");
  }
  fs::path found;
  try {
    found = weights::find_model(with_home(base));
  } catch (const Error& error) {
    throw Error(path.string() + ": its base model: " + error.what());
  }
  if (!fs::exists(found)) refuse("its base model, " + base + ", is not there");
  if (!fs::exists(found / "config.json")) refuse("its base model, " + base + ", holds no config.json");
  return base;
}

}  // namespace

UsedModel find_used_model(const std::string& subject, bool with_base) {
  const fs::path folder = subject;
  std::error_code absent;
  if (!fs::is_directory(folder, absent)) return {subject, {}, {}};
  const fs::path run = run_of(folder);
  if (fs::exists(folder / "config.json")) return {subject, {}, run};
  if (fs::exists(folder / "adapter_config.json")) return {with_base ? base_of(folder) : "", folder, run};
  if (fs::exists(folder / "config.yaml")) {
    const auto checkpoint = newest_checkpoint(folder);
    throw UsageError(
        subject + " is the folder of a run that has no final model",
        checkpoint ? "name its newest checkpoint, " + checkpoint->string() : "train it: it has no checkpoint either");
  }
  return {subject, {}, {}};
}

void refuse_no_model(const std::string& command, const std::string& model) {
  if (model.empty()) return;
  const fs::path path = model;
  std::error_code absent;
  if (fs::exists(path / "adapter_config.json", absent) && !fs::exists(path / "config.json", absent)) {
    const std::string option = command == "eval" ? "--adapter " : "method=lora adapter_name_or_path=";
    throw UsageError(model + " holds an adapter, not a model",
                     command == "quantize" ? "merge it first: fathom export " + model + " --merge --out DIR"
                                           : "name its base model, and the adapter with " + option + model);
  }
  if (command == "estimate" || command == "advise" || fs::exists(path, absent)) return;
  refuse_others(model);
  if (path.has_parent_path()) return;
  const std::string shape = folder_or_known_shape(model);
  const bool known = shape != model;
  if (!known && !parse_count(model)) return;
  throw UsageError(
      "'" + model + "' is " + (known ? "a known shape" : "a number of parameters") + ", without weights or a tokenizer",
      "name a model's folder, or org/name as on the Hugging Face hub" +
          (known && command == "train" ? "; for random_init: true, " + shape : ""));
}

std::optional<config::RunConfig> run_behind(const UsedModel& used) {
  if (used.run.empty()) return std::nullopt;
  try {
    return config::load_config(used.run, {}, config::Purpose::kEstimate);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<std::string> with_storage_of(const config::RunConfig& run, std::vector<std::string> overrides) {
  constexpr const char* kKeys[] = {"method",      "load_in_8bit", "load_in_4bit",
                                   "load_in_fp8", "qat",          "bnb_4bit_use_double_quant"};
  const config::RunConfig defaults;
  for (const std::string name : kKeys) {
    const config::Key& key = *config::find_key(name);
    const bool given = std::any_of(overrides.begin(), overrides.end(),
                                   [&](const std::string& text) { return text.starts_with(name + "="); });
    if (!given && key.get(run) != key.get(defaults)) overrides.push_back(name + "=" + key.get(run));
  }
  return overrides;
}

}  // namespace fathom::app
