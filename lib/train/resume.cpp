// Decides whether a run may continue from a checkpoint, and from which.
#include "train/resume.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/path.h"
#include "config/keys.h"
#include "config/settings.h"
#include "optim/schedule.h"
#include "schedule/base_identity.h"
#include "schedule/step_order.h"
#include "train/inputs.h"
#include "train/reference.h"
#include "train/run_state.h"

namespace fathom::train {
namespace {

using Differences = std::vector<config::Difference>;

// Those that a run which goes on does not take by themselves. What an earlier version compared, this one may take.
Differences differing_settings(const config::Settings& here, const config::Settings& there) {
  Differences differences = config::differences(here, there);
  std::erase_if(differences, [](const config::Difference& each) {
    const config::Key* key = config::find_key(each.key);
    return key != nullptr && key->on_resume == config::OnResume::kTaken;
  });
  return differences;
}

std::string in_words(const Differences& differences) { return config::in_words(differences, "there"); }

// Takes those whose keys say this out of `differences`.
Differences take_out(config::OnResume on_resume, Differences& differences) {
  const auto border =
      std::stable_partition(differences.begin(), differences.end(), [&](const config::Difference& each) {
        const config::Key* key = config::find_key(each.key);
        return key == nullptr || key->on_resume != on_resume;
      });
  Differences taken(border, differences.end());
  differences.erase(border, differences.end());
  return taken;
}

// The config as it was when the checkpoint was saved, of which only rate keys may differ from the one of now.
config::RunConfig as_it_was(config::RunConfig config, const Differences& differences) {
  config::Settings former;
  for (const config::Difference& each : differences) former.emplace(each.key, each.there);
  config::take(former, "the checkpoint's settings", config);
  return config;
}

// The rate of each step of a run.
class Rates {
 public:
  Rates(const config::RunConfig& config, const data::Dataset& dataset)
      : config_(config), total_steps_(schedule::StepOrder(config, dataset).total_steps()) {}
  int64_t total_steps() const { return total_steps_; }
  double of(int64_t updates) const {
    return config_.learning_rate *
           optim::schedule_factor(config_.lr_scheduler_type, updates, total_steps_, config_.warmup_steps);
  }

 private:
  const config::RunConfig& config_;
  int64_t total_steps_;
};

std::string rate_in_words(double rate) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", rate);
  return text.data();
}

// What becomes of a run that goes on with other rates than it began with, or for longer. updates: those done.
void tell_of_other_rates(const checkpoint::Checkpoint& found, int64_t updates, const config::RunConfig& config,
                         const data::Dataset& dataset, const Differences& differences) {
  if (differences.empty()) return;
  const config::RunConfig former = as_it_was(config, differences);
  const Rates before(former, dataset), after(config, dataset);
  const int64_t step = found.step();
  if (after.total_steps() < step) {
    throw UsageError(found.folder().string() + " is of step " + format_count(step) + ", and with " +
                         in_words(differences) + " the run ends after step " + format_count(after.total_steps()),
                     "raise max_steps or num_train_epochs, or name an earlier checkpoint");
  }
  bool as_planned_so = true;
  for (int64_t update = 0; update < updates && as_planned_so; ++update) {
    as_planned_so = before.of(update) == after.of(update);
  }
  const std::string goes_on = "the run goes on to step " + format_count(after.total_steps()) +
                              " (before: " + format_count(before.total_steps()) + ") with " + in_words(differences);
  if (as_planned_so) {
    log_info(goes_on + ": its steps so far are those of a run that was begun so");
    return;
  }
  log_warning(
      goes_on + ": its " + format_count(updates) +
      " updates so far had other rates than these settings would have given them, so that it is not the run that "
      "was begun so. The next rate is " +
      rate_in_words(after.of(updates)) + "; the last one was " +
      rate_in_words(updates > 0 ? before.of(updates - 1) : 0) + ", and by the settings of before the next would be " +
      rate_in_words(before.of(updates)));
}

constexpr const char* kAccumulation = "gradient_accumulation_steps";

// What one process would accumulate for a step of that run.
int64_t batches_of_step(const RunState& state) {
  const auto found = state.config.find(kAccumulation);
  if (found == state.config.end()) return config::RunConfig().gradient_accumulation_steps;
  const std::string& text = found->second;
  int64_t batches = 0;
  std::from_chars(text.data(), text.data() + text.size(), batches);
  if (batches > 0) return batches;
  throw Error(std::string("the checkpoint's settings have ") + kAccumulation + ": " + text +
              ", which is no value of it");
}

// "num_processes: 4 and gradient_accumulation_steps: 1", of the run that saved the checkpoint.
std::string shares_in_words(const RunState& state) {
  const int64_t processes = std::ssize(state.random_of_others) + 1;
  return "num_processes: " + std::to_string(processes) + " and " + kAccumulation + ": " +
         std::to_string(batches_of_step(state) / processes);
}

// Sets gradient_accumulation_steps so that a step takes as many batches as the checkpoint's.
void keep_step(const checkpoint::Checkpoint& found, config::RunConfig& config) {
  const RunState state = run_state(found);
  const int64_t batches = batches_of_step(state), processes = config.num_processes;
  const std::string words = found.folder().string() + " was saved with " + shares_in_words(state) +
                            "; with num_processes: " + std::to_string(processes);
  if (batches % processes != 0 || batches / processes > config::kMostAccumulated) {
    int64_t fewer = processes - 1, more = processes + 1;
    while (fewer > 0 && batches % fewer != 0) --fewer;
    while (more < batches && batches % more != 0) ++more;
    throw UsageError(words + " no " + kAccumulation + " keeps a step as large",
                     "set num_processes: " + (fewer > 0 ? std::to_string(fewer) : "") +
                         (fewer > 0 && more <= batches ? " or " : "") + (more <= batches ? std::to_string(more) : ""));
  }
  if (batches / processes == config.gradient_accumulation_steps) return;
  config.gradient_accumulation_steps = batches / processes;
  log_info(words + " a step stays as large by " + kAccumulation + ": " +
           std::to_string(config.gradient_accumulation_steps));
}

[[noreturn]] void refuse_other_step(const checkpoint::Checkpoint& found, const RunState& state,
                                    const config::RunConfig& config) {
  throw UsageError(found.folder().string() + " was saved with " + shares_in_words(state) + ", " +
                       std::to_string(batches_of_step(state)) +
                       " batches a step; num_processes: " + std::to_string(config.num_processes) + " and " +
                       kAccumulation + ": " + std::to_string(config.gradient_accumulation_steps) + " would take " +
                       std::to_string(config.gradient_accumulation_steps * config.num_processes),
                   std::string("leave ") + kAccumulation + " out, and it becomes what keeps a step as large");
}

// The one comparison of a run with its checkpoint: settings by their values, files by what is in them.
void refuse_other_run(const checkpoint::Checkpoint& found, const config::RunConfig& config,
                      const schedule::RunInputs& inputs) {
  const std::string remedy = "; resume with those of that run, or start a new one in another output_dir";
  const RunState state = run_state(found);
  Differences others = differing_settings(steps_identity(config), state.config);
  const Differences rates = take_out(config::OnResume::kRate, others);
  Differences paths;
  if (!state.base.empty())
    paths = take_out(config::OnResume::kPath, others);  // else of an earlier version, without fingerprints
  if (others.size() == 1 && others.front().key == kAccumulation) refuse_other_step(found, state, config);
  if (!others.empty()) {
    throw UsageError(found.folder().string() + " was saved under other settings: " + in_words(others) + remedy);
  }
  if (!state.base.empty() && state.base != schedule::base_identity(config, *inputs.folder)) {
    throw UsageError(found.folder().string() + " was saved over another base model than is now in " +
                     inputs.folder->path().string() + ": its config.json or its weights have changed" +
                     "; put that model back, or start a new run in another output_dir");
  }
  if (state.data != inputs.train.fingerprint()) {
    throw UsageError(found.folder().string() +
                     " was saved on other data: what train_file names"
                     " or its tokenizer has changed" +
                     remedy);
  }
  if (config::row_of(config.objective).needs_reference) reference_of(found, inputs.validation);
  if (!paths.empty())
    log_info(in_words(paths) +
             ": what is read there is the same, by its fingerprint; what is trained comes from the checkpoint");
  tell_of_other_rates(found, state.optimizer_steps, config, inputs.train, rates);
}

// With `auto` and no sound checkpoint a run starts anew: only where that loses nothing.
void refuse_results_without_checkpoint(const std::filesystem::path& folder) {
  std::string held;
  bool model = false;
  if (std::filesystem::exists(folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      const bool result =
          name.starts_with("checkpoint-") || checkpoint::is_set_aside(entry.path()) || name.ends_with(".safetensors");
      if (result && held.empty()) held = entry.path().string();
      model = model || name == "model.safetensors" || name == "model.safetensors.index.json";
    }
  }
  if (held.empty()) return;
  throw Error("resume_from_checkpoint is auto, but " + folder.string() +
                  " has no sound checkpoint to continue from, and holds " + held,
              (model ? "to train that model further: model_name_or_path=" + folder.string() + " output_dir=NEW; else "
                     : std::string()) +
                  "choose another output_dir, or remove that folder to start anew; save_strategy keeps checkpoints");
}

// Says what may have been meant by a path that is no checkpoint's.
void refuse_no_checkpoint(const config::RunConfig& config) {
  const std::filesystem::path named = config.resume_from_checkpoint, in_output = config.output_dir / named;
  const std::string name = "resume_from_checkpoint: " + named.string();
  if (!std::filesystem::exists(named) && std::filesystem::is_directory(in_output)) {
    throw UsageError(name + " is not there, only " + in_output.string(), "write " + in_output.string());
  }
  if (std::filesystem::exists(named / "manifest.json") || !std::filesystem::exists(named / "config.yaml")) return;
  const std::optional<checkpoint::Checkpoint> newest = checkpoint::find_newest(named);
  if (!newest) throw UsageError(name + " is a run's folder without a sound checkpoint", "begin the run anew");
  throw UsageError(name + " is a run's folder, not a checkpoint",
                   (is_same_path(named, config.output_dir) ? "write auto, or name" : "name") +
                       std::string(" its newest checkpoint, ") + newest->folder().string());
}

// Whether it is of the same run is not looked at yet.
std::optional<checkpoint::Checkpoint> find_checkpoint(const config::RunConfig& config,
                                                      const schedule::RunInputs& inputs, bool phantom,
                                                      weights::Readers* readers) {
  if (config.resume_from_checkpoint.empty()) return std::nullopt;
  const bool automatic = config.resume_from_checkpoint == "auto";
  const std::filesystem::path from = automatic ? config.output_dir : config.resume_from_checkpoint;
  if (!phantom) weights::refuse_phantom(from);
  std::optional<checkpoint::Checkpoint> found;
  if (automatic) {
    found = checkpoint::find_newest(from, readers);
  } else {
    refuse_no_checkpoint(config);
    found.emplace(from, readers);
  }
  if (!found) {
    refuse_results_without_checkpoint(from);
    if (!config.adapter_name_or_path.empty()) refuse_other_adapter(config, inputs);
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
  return found;
}

}  // namespace

config::Settings steps_identity(config::RunConfig config) {
  // Steps are of as many batches, whoever takes them.
  config.gradient_accumulation_steps *= config.num_processes;
  const config::RunConfig plain;
  for (const config::Key& key : config::keys()) {
    if (key.on_resume == config::OnResume::kTaken) key.copy(plain, config);
  }
  return config::settings_of(config);
}

std::optional<checkpoint::Checkpoint> find_resume(const config::RunConfig& config, const schedule::RunInputs& inputs,
                                                  bool phantom, weights::Readers* readers) {
  std::optional<checkpoint::Checkpoint> found = find_checkpoint(config, inputs, phantom, readers);
  if (found) refuse_other_run(*found, config, inputs);
  return found;
}

std::optional<checkpoint::Checkpoint> find_resume_of_any_number(config::RunConfig& config,
                                                                const schedule::RunInputs& inputs, bool phantom,
                                                                weights::Readers* readers) {
  std::optional<checkpoint::Checkpoint> found = find_checkpoint(config, inputs, phantom, readers);
  if (found) {
    keep_step(*found, config);
    refuse_other_run(*found, config, inputs);
  }
  return found;
}

bool continues_in_place(const config::RunConfig& config, const std::optional<checkpoint::Checkpoint>& resume) {
  std::error_code absent;
  return config.resume_from_checkpoint == "auto" ||
         (resume && std::filesystem::equivalent(std::filesystem::absolute(resume->folder()).parent_path(),
                                                config.output_dir, absent));
}

schedule::Start start_of(const config::RunConfig& config, const schedule::RunInputs& inputs,
                         const std::optional<checkpoint::Checkpoint>& resume) {
  if (!resume) return {.evaluation_due = config.eval_on_start};
  const RunState state = run_state(*resume);
  return {.step = state.counters.step,
          .position = state.position,
          .evaluation_due = state.evaluation_due && !inputs.validation.empty(),
          .resumed = true};
}

}  // namespace fathom::train
