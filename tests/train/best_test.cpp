// The best evaluation: its weights are the final ones, it survives resumes and save_total_limit, and its absence ends a
// run.
#include "train/best.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "base/hash.h"
#include "base/json_value.h"
#include "tests/train/small_run.h"

namespace fathom::train {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::Stop;

TEST(EvaluationHistory, counts_from_the_best) {
  EvaluationHistory history(2);
  EXPECT_FALSE(history.add(1, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_TRUE(history.add(2, 1.5));
  EXPECT_FALSE(history.add(3, 1.5)) << "no better";
  EXPECT_FALSE(history.out_of_patience());
  EXPECT_TRUE(history.add(4, 1.25));
  EXPECT_FALSE(history.add(5, 2));
  EvaluationHistory resumed(2, EvaluationHistory::from_json(history.to_json()));
  EXPECT_EQ(resumed.best()->step, 4);
  EXPECT_FALSE(resumed.add(6, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_TRUE(resumed.out_of_patience()) << "one before the resume, one after it";
  EvaluationHistory overflowing(2);
  EXPECT_FALSE(overflowing.add(1, std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(overflowing.best());
  EvaluationHistory patient(0);
  for (int step = 0; step < 100; ++step) patient.add(step, step);
  EXPECT_FALSE(patient.out_of_patience());
}

class BestTest : public testing::SmallRun {
 protected:
  // Evaluations on other data than those it learns by heart: the loss falls, then rises.
  config::RunConfig overfitting(const std::string& name) const {
    write_data("other.jsonl", 6);
    config::RunConfig config = this->config(name);
    config.validation_file = {(folder_ / "other.jsonl").string()};
    config.learning_rate = 4e-3;
    config.lr_scheduler_type = config::Schedule::kConstant;
    config.eval_steps = 2;
    config.save_steps = 5;
    config.load_best_model_at_end = true;
    return config;
  }
  static EvaluatedStep best_of(const std::vector<report::EvaluationMetrics>& evaluations) {
    const auto best = std::min_element(evaluations.begin(), evaluations.end(),
                                       [](const auto& a, const auto& b) { return a.eval_loss < b.eval_loss; });
    return {best->step, best->eval_loss};
  }
  static std::string model_hash(const config::RunConfig& config, const std::string& checkpoint = "") {
    return hash_file(fs::path(config.output_dir) / checkpoint / "model.safetensors");
  }
  static std::vector<std::string> checkpoints(const config::RunConfig& config) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(config.output_dir)) {
      if (entry.is_directory()) names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
};

TEST_F(BestTest, its_weights_are_the_final_ones) {
  const config::RunConfig config = overfitting("whole");
  std::vector<report::EvaluationMetrics> evaluations;
  const RunResult result = run(config, -1, nullptr, &evaluations);
  const EvaluatedStep best = best_of(evaluations);
  ASSERT_GT(best.step, 2) << "the loss should fall at first";
  ASSERT_LT(best.step, 14) << "and rise then";
  EXPECT_EQ(result.best->step, best.step);
  EXPECT_EQ(result.best->loss, best.loss);
  EXPECT_FALSE(result.stopped_early);
  const std::string chosen = "checkpoint-" + std::to_string(best.step);
  EXPECT_EQ(model_hash(config), model_hash(config, chosen)) << "saved when it appeared, whatever save_steps";
  EXPECT_NE(model_hash(config), model_hash(config, "checkpoint-15"));

  for (const int64_t stop_after : {best.step - 1, best.step + 1, int64_t{15}}) {
    config::RunConfig stopped = overfitting("stopped" + std::to_string(stop_after));
    stopped.resume_from_checkpoint = "auto";
    EXPECT_THROW(run(stopped, stop_after), Stop);
    EXPECT_EQ(run(stopped).best->step, best.step);
    EXPECT_EQ(model_hash(stopped), model_hash(config)) << "stopped after step " << stop_after;
  }
}

TEST_F(BestTest, is_spared_when_checkpoints_are_deleted) {
  config::RunConfig config = overfitting("limited");
  config.save_total_limit = 1;
  const RunResult result = run(config);
  const std::string best = "checkpoint-" + std::to_string(result.best->step);
  EXPECT_THAT(checkpoints(config), ElementsAre("checkpoint-15", best)) << "the newest and the best";
  config = overfitting("limited to 3");
  config.save_total_limit = 3;
  config.save_steps = 1;
  run(config);
  EXPECT_THAT(checkpoints(config), ElementsAre("checkpoint-15", "checkpoint-16", best));
}

TEST_F(BestTest, a_better_one_that_does_not_come_ends_the_run) {
  config::RunConfig config = overfitting("patient");
  config.load_best_model_at_end = false;
  config.early_stopping_patience = 2;
  std::vector<report::EvaluationMetrics> evaluations;
  const RunResult result = run(config, -1, nullptr, &evaluations);
  EXPECT_TRUE(result.stopped_early);
  EXPECT_EQ(result.steps, best_of(evaluations).step + 4) << "two evaluations later";
  EXPECT_EQ(result.steps, evaluations.back().step);

  config::RunConfig stopped = config;
  stopped.output_dir = (folder_ / "impatient").string();
  stopped.resume_from_checkpoint = "auto";
  stopped.save_steps = 1;
  EXPECT_THROW(run(stopped, result.steps - 1), Stop);
  EXPECT_EQ(run(stopped).steps, result.steps) << "one evaluation before the resume, one after it";
  EXPECT_EQ(model_hash(stopped), model_hash(config));
  EXPECT_EQ(run(stopped).steps, result.steps) << "a run that has ended stays so";
}

TEST_F(BestTest, an_evaluation_that_a_signal_forestalls_is_made_up_for) {
  config::RunConfig config = overfitting("undisturbed");
  config.early_stopping_patience = 3;
  config.eval_on_start = true;
  std::vector<report::EvaluationMetrics> expected;
  const RunResult whole = run(config, -1, nullptr, &expected);
  ASSERT_TRUE(whole.stopped_early);
  ASSERT_LT(whole.best->step, whole.steps);
  for (const int64_t step : {int64_t{1}, whole.best->step, whole.best->step + 2, whole.steps}) {
    config::RunConfig stopped = config;
    stopped.output_dir = (folder_ / ("signal" + std::to_string(step))).string();
    stopped.resume_from_checkpoint = "auto";
    EXPECT_EQ(run_until_signal(stopped, step).signal, SIGTERM);
    std::vector<report::EvaluationMetrics> evaluations;
    const RunResult resumed = run(stopped, -1, nullptr, &evaluations);
    EXPECT_EQ(resumed.best->step, whole.best->step) << "signal at step " << step;
    EXPECT_EQ(resumed.best->loss, whole.best->loss);
    EXPECT_EQ(resumed.steps, whole.steps) << "patience counts what the signal forestalled";
    EXPECT_EQ(model_hash(stopped), model_hash(config)) << "signal at step " << step;
    ASSERT_FALSE(evaluations.empty());
    const int64_t first = (step + 1) / 2 * 2;  // every second step has one
    EXPECT_EQ(evaluations.front().step, first);
    for (size_t i = 0; i < evaluations.size(); ++i) {
      EXPECT_EQ(evaluations[i].eval_loss, expected[i + expected.size() - evaluations.size()].eval_loss);
    }
  }
}

TEST_F(BestTest, a_damaged_one_leaves_the_last_step_as_the_model) {
  config::RunConfig config = overfitting("damaged");
  const int64_t best = run(config).best->step;
  const fs::path folder = fs::path(config.output_dir) / ("checkpoint-" + std::to_string(best));
  fs::remove(fs::path(config.output_dir) / "model.safetensors");
  fs::resize_file(folder / "model.safetensors", 100);
  config.resume_from_checkpoint = "auto";
  const RunResult result = run(config);
  EXPECT_THAT(result.best_is_lost, ::testing::HasSubstr(folder.string()));
  EXPECT_EQ(result.best->step, best);
  config.load_best_model_at_end = false;
  config.resume_from_checkpoint = "";
  config.output_dir = (folder_ / "last").string();
  run(config);
  EXPECT_EQ(model_hash(overfitting("damaged")), model_hash(config));
}

TEST_F(BestTest, is_found_after_moves_from_folder_to_folder) {
  const config::RunConfig whole = overfitting("whole");
  const int64_t best = run(whole).best->step;
  ASSERT_LT(best, 10);
  config::RunConfig config = overfitting("first");
  EXPECT_THROW(run(config, 11), Stop);
  config.resume_from_checkpoint = (folder_ / "first" / "checkpoint-10").string();
  config.output_dir = (folder_ / "second").string();
  config.save_steps = 1;
  EXPECT_THROW(run(config, 14), Stop);
  config.resume_from_checkpoint = (folder_ / "second" / "checkpoint-13").string();
  config.output_dir = (folder_ / "third").string();
  const RunResult result = run(config);
  EXPECT_EQ(result.best->step, best);
  EXPECT_EQ(result.best_is_lost, "");
  EXPECT_EQ(model_hash(config), model_hash(whole));
}

TEST_F(BestTest, losses_that_are_not_numbers_are_told_and_run_out_of_patience) {
  config::RunConfig config = overfitting("overflowing");
  config.learning_rate = 1e30;
  config.eval_steps = 1;
  config.early_stopping_patience = 1;
  ::testing::internal::CaptureStderr();
  const RunResult result = run(config);
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      ::testing::HasSubstr("the loss of the evaluation after step 1 is not finite: it counts as no improvement"));
  EXPECT_TRUE(result.stopped_early);
  EXPECT_FALSE(result.best);
}

}  // namespace
}  // namespace fathom::train
