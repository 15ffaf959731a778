// trainer_state.json, written and read in one place.
#include "train/run_state.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json_value.h"
#include "train/random_state.h"

namespace fathom::train {
namespace {

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

const Json& member(const Json& object, const char* key) {
  static const Json absent;
  return object.contains(key) ? object.at(key) : absent;
}

[[noreturn]] void refuse(const char* key, const char* expected, const Json& value) {
  throw Error(std::string(key) + ": expected " + expected + ", got " + value.dump().substr(0, 80));
}

const Json& object_at(const Json& state, const char* key) {
  const Json& value = member(state, key);
  if (!value.is_object()) refuse(key, "an object", value);
  return value;
}

std::string text_at(const Json& state, const char* key) {
  const Json& value = member(state, key);
  if (!value.is_string()) refuse(key, "a text", value);
  return value.get<std::string>();
}

// Empty for null, and for what earlier versions did not write.
std::string text_or_none(const Json& state, const char* key) {
  return member(state, key).is_null() ? "" : text_at(state, key);
}

config::Settings settings_at(const Json& state, const char* key) {
  const Json& value = member(state, key);
  config::Settings settings;
  if (value.is_string()) settings = config::settings_in(value.get<std::string>());  // of an earlier version
  if (!settings.empty()) return settings;
  if (!value.is_object()) refuse(key, "an object", value);
  for (const auto& [name, setting] : value.items()) {
    if (!setting.is_string()) refuse(name.c_str(), "a text", setting);
    settings.emplace(name, setting.get<std::string>());
  }
  return settings;
}

int64_t count_or_zero(const Json& state, const char* key) {
  return member(state, key).is_null() ? 0 : count_at(state, key);
}

double number_at(const Json& state, const char* key) {
  const Json& value = member(state, key);
  if (!value.is_number() || !std::isfinite(value.get<double>())) refuse(key, "a number", value);
  return value.get<double>();
}

Counters counters_of(const Json& state) {
  Counters counters;
  counters.step = count_at(state, "step");
  counters.tokens = count_at(state, "tokens");
  counters.peak_bytes = count_or_zero(state, "peak_bytes");
  counters.window_loss = number_at(state, "window_loss");
  if (!member(state, "window_router_loss").is_null()) {
    counters.window_router_loss = number_at(state, "window_router_loss");
  }
  if (const Json& numbers = member(state, "window_numbers"); !numbers.is_null()) {
    if (!numbers.is_array()) refuse("window_numbers", "a list", numbers);
    for (const Json& number : numbers) {
      if (!number.is_number()) refuse("window_numbers", "numbers", number);
      counters.window_numbers.push_back(number.get<double>());
    }
  }
  counters.window_targets = count_at(state, "window_targets");
  counters.window_steps = count_at(state, "window_steps");
  counters.window_clipped = count_at(state, "window_clipped");
  return counters;
}

ObserverState observer_of(const Json& json) {
  ObserverState state;
  if (member(json, "observer").is_null()) return state;
  const Json& observer = object_at(json, "observer");
  for (const auto& [key, value] : observer.items()) state[key] = count_at(observer, key);
  return state;
}

}  // namespace

RunState run_state_from_json(const Json& json) {
  RunState state;
  state.config = settings_at(json, "config");
  state.base = text_or_none(json, "base");
  state.data = text_at(json, "data");
  state.validation = text_or_none(json, "validation");
  state.reference = text_or_none(json, "reference");
  state.date = text_or_none(json, "date");
  state.counters = counters_of(json);
  state.optimizer_steps = count_at(json, "optimizer_steps");
  const Json& position = object_at(json, "position");
  state.position = {count_at(position, "epoch"), count_at(position, "index")};
  state.evaluations = EvaluationHistory::from_json(object_at(json, "evaluations"));
  const Json& due = member(json, "evaluation_due");
  if (!due.is_null() && !due.is_boolean()) refuse("evaluation_due", "true or false", due);
  state.evaluation_due = due == true;
  if (!member(json, "best_step").is_null()) state.best_step = count_at(json, "best_step");
  state.best_folder = text_or_none(json, "best_folder");
  if (!member(json, "first_evaluation").is_null()) {
    state.first_evaluation = {count_or_zero(json, "first_evaluation_step"), number_at(json, "first_evaluation")};
  }
  if (!member(json, "loss_scale").is_null()) state.loss_scale = optim::LossScale::from_json(json.at("loss_scale"));
  state.random = member(json, "random");
  require_random_state(state.random);
  const Json others = json.value("random_of_others", Json::array());
  if (!others.is_array()) refuse("random_of_others", "a list", others);
  for (const Json& other : others) {
    require_random_state(other);
    state.random_of_others.push_back(other);
  }
  state.threads = count_at(json, "threads");
  state.observer = observer_of(json);
  return state;
}

double Counters::window_mean(double sum) const {
  if (window_targets == 0) return std::numeric_limits<double>::quiet_NaN();
  return sum / static_cast<double>(window_targets);
}

std::vector<double> Counters::window_means() const {
  std::vector<double> means;
  for (const double sum : window_numbers) means.push_back(window_mean(sum));
  return means;
}

void Counters::add(int64_t targets, double loss, double router_loss, const std::vector<double>& numbers) {
  const auto weight = static_cast<double>(targets);
  window_loss += loss * weight;
  window_router_loss += router_loss * weight;
  window_numbers.resize(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) window_numbers[i] += numbers[i] * weight;
  window_targets += targets;
}

void Counters::begin_window() {
  window_loss = window_router_loss = 0;
  window_numbers.clear();
  window_targets = window_steps = window_clipped = 0;
}

Json to_json(const RunState& state) {
  const std::optional<EvaluatedStep>& first = state.first_evaluation;
  return {{"config", state.config},
          {"base", or_null(state.base)},
          {"data", state.data},
          {"validation", or_null(state.validation)},
          {"reference", or_null(state.reference)},
          {"date", state.date},
          {"step", state.counters.step},
          {"tokens", state.counters.tokens},
          {"peak_bytes", state.counters.peak_bytes},
          {"window_loss", state.counters.window_loss},
          {"window_router_loss", state.counters.window_router_loss},
          {"window_numbers", state.counters.window_numbers},
          {"window_targets", state.counters.window_targets},
          {"window_steps", state.counters.window_steps},
          {"window_clipped", state.counters.window_clipped},
          {"evaluations", state.evaluations.to_json()},
          {"evaluation_due", state.evaluation_due},
          {"best_step", state.best_step ? Json(*state.best_step) : Json()},
          {"best_folder", or_null(state.best_folder)},
          {"first_evaluation", first ? Json(first->loss) : Json()},
          {"first_evaluation_step", first ? Json(first->step) : Json()},
          {"position", {{"epoch", state.position.epoch}, {"index", state.position.index}}},
          {"optimizer_steps", state.optimizer_steps},
          {"loss_scale", state.loss_scale ? state.loss_scale->to_json() : Json()},
          {"random", state.random},
          {"random_of_others", state.random_of_others},
          {"threads", state.threads},
          {"observer", state.observer}};
}

RunState run_state(const checkpoint::Checkpoint& checkpoint) try {
  RunState state = run_state_from_json(checkpoint.state());
  if (state.counters.step != checkpoint.step() || state.optimizer_steps > checkpoint.step()) {
    throw Error("step: " + std::to_string(state.counters.step) + ", of which the optimizer took " +
                std::to_string(state.optimizer_steps) + ", in a checkpoint of step " +
                std::to_string(checkpoint.step()));
  }
  return state;
} catch (const Error& error) {
  throw Error((checkpoint.folder() / "trainer_state.json").string() + ": " + error.what(),
              "it was changed after it was saved, or is of another version: resume from another checkpoint");
}

checkpoint::Checkpoint checkpoint_of(const std::filesystem::path& output_dir, const EvaluatedStep& evaluated,
                                     weights::Readers* readers) {
  checkpoint::Checkpoint found(checkpoint::folder_of(output_dir, evaluated.step), readers);
  const EvaluationHistory its_own = run_state(found).evaluations;
  if (!its_own.best() || its_own.best()->loss != evaluated.loss) {
    throw Error(found.folder().string() + ": is not of the evaluation whose loss was " +
                std::to_string(evaluated.loss));
  }
  return found;
}

}  // namespace fathom::train
