// What a checkpoint says of its run is taken as it was saved, or refused by name before anything is planned.
#include "train/run_state.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/json_value.h"
#include "tests/train/small_run.h"
#include "train/inputs.h"

namespace fathom::train {
namespace {

using ::testing::HasSubstr;

class RunStateTest : public testing::SmallRun {
 protected:
  Json saved() const {
    config::RunConfig config = this->config("run");
    config.load_best_model_at_end = true;
    config.eval_on_start = true;
    EXPECT_THROW(run(config, 7), testing::Stop);
    return checkpoint::find_newest(config.output_dir)->state();
  }
};

// "" where the state is taken.
std::string refusal(const Json& state) {
  try {
    run_state_from_json(state);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

void add_places(const Json& value, const Json::json_pointer& here, std::vector<Json::json_pointer>& places) {
  for (const auto& [key, inner] : value.items()) {
    places.push_back(here / key);
    if (inner.is_object()) add_places(inner, here / key, places);
  }
}

TEST_F(RunStateTest, ComesBackAsItWasSaved) {
  const Json state = saved();
  EXPECT_EQ(to_json(run_state_from_json(state)), state);
  EXPECT_EQ(run_state_from_json(state).observer, (ObserverState{{"kept", 7}}));
}

TEST_F(RunStateTest, AnythingElseIsRefusedByItsKey) {
  const Json state = saved();
  std::vector<Json::json_pointer> places;
  add_places(state, Json::json_pointer(), places);
  ASSERT_GT(places.size(), 30U);
  for (const Json::json_pointer& place : places) {
    for (const Json& value : {Json("x"), Json(-1), Json(0.5), Json(1e30), Json::array(), Json(true), Json()}) {
      Json changed = state;
      changed[place] = value;
      if (value == state.at(place)) continue;
      const std::string why = refusal(changed);  // nothing else is thrown
      const bool is_text = state.at(place).is_string() || place.back() == "best_folder" || place.back() == "reference";
      const bool is_loss = state.at(place).is_number_float();
      const bool is_wrong = value.is_array() || (value == -1 && !is_loss) || (value == "x" && !is_text);
      EXPECT_FALSE(is_wrong && why.empty()) << place << ": " << value;
      EXPECT_FALSE(value == -1 && is_loss && !why.empty()) << place << ": " << why;
    }
    Json without = state;
    without[place.parent_pointer()].erase(place.back());
    refusal(without);
  }
  Json changed = state;
  changed["random"]["words"][6] = nullptr;
  EXPECT_THAT(refusal(changed), HasSubstr("words: expected 624 of 32 bits"));
  for (const char* key : {"step", "tokens", "window_steps", "evaluations", "position", "random", "config", "threads"}) {
    changed = state;
    changed.erase(key);
    EXPECT_THAT(refusal(changed), HasSubstr(key));
  }
}

TEST_F(RunStateTest, OfEarlierVersionsIsTaken) {
  Json state = saved();
  for (const char* key : {"base", "validation", "date", "peak_bytes", "best_folder", "first_evaluation_step",
                          "evaluation_due", "loss_scale", "observer", "window_router_loss"}) {
    state.erase(key);
  }
  EXPECT_EQ(refusal(state), "");
}

// They had the config as YAML.
TEST_F(RunStateTest, OfEarlierVersionsHasTheSameSettings) {
  Json state = saved();
  const config::Settings settings = run_state_from_json(state).config;
  EXPECT_THAT(settings, ::testing::Contains(::testing::Key("learning_rate")));
  std::string yaml = "# model\n";
  for (const auto& [key, value] : settings) yaml.append(key).append(": ").append(value).append("\n");
  state["config"] = yaml;
  EXPECT_EQ(run_state_from_json(state).config, settings);
  state["config"] = "gradient_accumulation_steps: 400000\n";  // of several processes: more than the key takes
  EXPECT_THAT(run_state_from_json(state).config,
              ::testing::ElementsAre(::testing::Pair("gradient_accumulation_steps", "400000")));
  state["config"] = {{"learning_rate", 1}};
  EXPECT_THAT(refusal(state), HasSubstr("learning_rate: expected a text, got 1"));
}

TEST_F(RunStateTest, OfAnotherStepIsRefusedBeforeTheRunIsPlanned) {
  config::RunConfig config = this->config("run");
  EXPECT_THROW(run(config, 4), testing::Stop);
  const std::filesystem::path output = config.output_dir;
  Json state = checkpoint::Checkpoint(output / "checkpoint-3").state();
  state["step"] = 2;
  const checkpoint::NamedTensors some = {{"w", at::ones({1})}};
  checkpoint::save(output, 3, {some, some, state}, {config.model_name_or_path, std::nullopt}, 0);
  config.resume_from_checkpoint = "auto";
  try {
    find_resume(config, open_inputs(config), false);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("checkpoint-3/trainer_state.json: step: 2"));
  }
}

}  // namespace
}  // namespace fathom::train
