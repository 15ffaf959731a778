// metrics.jsonl: its fields and their order, lengths, and that a resumed run holds each step once.
#include "report/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json_value.h"

namespace fathom::report {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MetricsTest : public ::testing::Test {
 protected:
  MetricsTest() { fs::create_directories(folder_); }
  ~MetricsTest() override { fs::remove_all(folder_); }

  std::vector<std::string> lines() const {
    std::ifstream stream(file_);
    std::vector<std::string> result;
    for (std::string line; std::getline(stream, line);) result.push_back(line);
    return result;
  }
  std::vector<int64_t> steps() const {
    std::vector<int64_t> result;
    for (const std::string& line : lines()) result.push_back(Json::parse(line)["step"].get<int64_t>());
    return result;
  }
  static StepMetrics at_step(int64_t step) {
    StepMetrics metrics;
    metrics.step = step;
    return metrics;
  }

  fs::path folder_ = fs::temp_directory_path() / ("fathom-metrics-" + std::to_string(::getpid()));
  fs::path file_ = folder_ / "metrics.jsonl";
};

TEST_F(MetricsTest, WritesTheFieldsInOrder) {
  MetricsFile metrics(file_);
  metrics.append(StepMetrics{.step = 10,
                             .epoch = 0.25,
                             .loss = 1.5,
                             .learning_rate = 5e-5,
                             .grad_norm = 0.125,
                             .clipped_share = 0.5,
                             .tokens = 4096,
                             .tokens_per_second = 2048,
                             .interval_seconds = 1.5,
                             .step_seconds = 0.5,
                             .live_bytes = 1000,
                             .peak_bytes = 3000});
  metrics.append(
      EvaluationMetrics{.step = 10, .epoch = 0.25, .eval_loss = 2.25, .eval_tokens = 99, .eval_seconds = 0.75});
  metrics.sync();
  EXPECT_THAT(lines(),
              ElementsAre("{\"step\":10,\"epoch\":0.25,\"loss\":1.5,\"learning_rate\":5e-05,\"grad_norm\":0.125,"
                          "\"clipped_share\":0.5,"
                          "\"tokens\":4096,\"tokens_per_second\":2048.0,\"interval_seconds\":1.5,\"step_seconds\":0.5,"
                          "\"live_bytes\":1000,"
                          "\"peak_bytes\":3000}",
                          "{\"step\":10,\"epoch\":0.25,\"eval_loss\":2.25,\"eval_tokens\":99,\"eval_seconds\":0.75}"));
  EXPECT_EQ(metrics.mark().bytes, static_cast<int64_t>(fs::file_size(file_)));
}

TEST_F(MetricsTest, WritesWhatRoutersAddWhereTheyDo) {
  MetricsFile metrics(file_);
  StepMetrics step = at_step(1);
  step.more = {{"router_loss", 0.25}};
  metrics.append(step);
  ASSERT_EQ(lines().size(), 1U);
  EXPECT_THAT(lines().front(), ::testing::EndsWith(",\"router_loss\":0.25}"));
}

TEST(Interval, IsTokensOverTheTimeOfAllItsSteps) {
  Interval interval;
  EXPECT_EQ(interval.tokens_per_second(), 0);
  interval.add(300, 1);
  interval.add(100, 3);  // the logged step, slower than the others
  EXPECT_EQ(interval.tokens_per_second(), 100) << "not the logged step's 33, nor the mean of 300 and 33";
}

TEST_F(MetricsTest, TheLossScaleIsWrittenWhereThereIsOne) {
  MetricsFile metrics(file_);
  StepMetrics step = at_step(1);
  metrics.append(step);
  step.more = {{"loss_scale", 32768.0}, {"skipped_steps", int64_t{2}}};
  metrics.append(step);
  EXPECT_FALSE(Json::parse(lines()[0]).contains("loss_scale"));
  EXPECT_EQ(Json::parse(lines()[1])["loss_scale"], 32768);
  EXPECT_EQ(Json::parse(lines()[1])["skipped_steps"], 2);
}

TEST_F(MetricsTest, AResumedRunHoldsEachStepOnce) {
  LogMark at_checkpoint;
  {
    MetricsFile metrics(file_);
    metrics.append(at_step(1));
    metrics.append(at_step(2));
    at_checkpoint = metrics.mark();
    metrics.append(at_step(3));
  }
  std::ofstream(file_, std::ios::app) << "{\"step\": 4, \"lo";  // killed within a line
  MetricsFile resumed(file_, at_checkpoint);
  resumed.append(at_step(3));
  resumed.append(at_step(4));
  EXPECT_THAT(steps(), ElementsAre(1, 2, 3, 4));
}

TEST_F(MetricsTest, ANewRunStartsAnEmptyFile) {
  { MetricsFile(file_).append(at_step(1)); }
  MetricsFile metrics(file_);
  EXPECT_EQ(metrics.mark().bytes, 0);
  metrics.append(at_step(7));
  EXPECT_THAT(steps(), ElementsAre(7));
}

TEST_F(MetricsTest, NamesThePathThatCannotBeWritten) {
  try {
    MetricsFile metrics(folder_ / "missing" / "metrics.jsonl");
    FAIL() << "a file in a missing folder was opened";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("missing/metrics.jsonl"));
  }
}

}  // namespace
}  // namespace fathom::report
