// The best evaluation: its weights are the final ones, it survives resumes and save_total_limit, and its absence ends a
// run.
#include "train/best.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "base/hash.h"
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
  EvaluationHistory resumed(2);
  resumed.restore(history.to_json());
  EXPECT_EQ(resumed.best()->step, 4);
  EXPECT_FALSE(resumed.add(6, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_TRUE(resumed.out_of_patience()) << "one before the resume, one after it";
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
  static BestEvaluation best_of(const std::vector<EvaluationReport>& evaluations) {
    const auto best = std::min_element(evaluations.begin(), evaluations.end(),
                                       [](const auto& a, const auto& b) { return a.loss < b.loss; });
    return {best->step, best->loss};
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
  std::vector<EvaluationReport> evaluations;
  const RunResult result = run(config, -1, nullptr, &evaluations);
  const BestEvaluation best = best_of(evaluations);
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
  std::vector<EvaluationReport> evaluations;
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

}  // namespace
}  // namespace fathom::train
