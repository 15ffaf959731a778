// The order of steps: epochs, accumulation, totals, and which shapes can make a run's maxima.
#include "train/steps.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/error.h"

namespace fathom::train {
namespace {

data::Dataset dataset_of(const std::vector<int64_t>& lengths) {
  std::vector<data::Example> examples;
  for (int64_t length : lengths) {
    data::Example& example = examples.emplace_back();
    example.ids.assign(length, 1);
    example.labels.assign(length, 1);
  }
  return data::Dataset(examples);
}

config::RunConfig config_of(int64_t batch, int64_t accumulation, double epochs) {
  config::RunConfig config;
  config.per_device_train_batch_size = batch;
  config.gradient_accumulation_steps = accumulation;
  config.num_train_epochs = epochs;
  return config;
}

TEST(StepOrder, AGroupNeverCrossesTheEndOfAPass) {
  // 10 examples in batches of 3: 4 batches a pass; accumulation 3 makes steps of 3 and 1 batches.
  StepOrder order(config_of(3, 3, 2), 10);
  EXPECT_EQ(order.steps_per_epoch(), 2);
  EXPECT_EQ(order.total_steps(), 4);
  for (int pass = 0; pass < 2; ++pass) {
    std::set<int64_t> seen;
    const auto first = order.next(), second = order.next();
    EXPECT_EQ(first.size(), 3u);
    EXPECT_EQ(second.size(), 1u);
    for (const auto& step : {first, second}) {
      for (const auto& rows : step) seen.insert(rows.begin(), rows.end());
    }
    EXPECT_EQ(seen.size(), 10u);
  }
}

TEST(StepOrder, ASharesOfAPassRoundsUpAndMaxStepsWins) {
  EXPECT_EQ(StepOrder(config_of(2, 1, 1.5), 10).total_steps(), 8);
  config::RunConfig config = config_of(2, 1, 1.5);
  config.max_steps = 3;
  EXPECT_EQ(StepOrder(config, 10).total_steps(), 3);
}

TEST(StepOrder, SeekingResumesTheSameOrder) {
  StepOrder whole(config_of(3, 2, 3), 17);
  whole.next();
  whole.next();
  StepOrder resumed(config_of(3, 2, 3), 17);
  resumed.seek(whole.position());
  for (int step = 0; step < 5; ++step) EXPECT_EQ(whole.next(), resumed.next());
}

TEST(StepShapes, LengthsAreThoseOfTheLongestRow) {
  config::RunConfig config = config_of(2, 1, 1);
  config.shuffle = false;
  const std::vector<StepShape> shapes = step_shapes(config, dataset_of({3, 9, 4, 4, 7}));
  EXPECT_EQ(shapes, (std::vector<StepShape>{{{2, 9}}, {{2, 4}}, {{1, 7}}}));
}

TEST(MaximalShapes, KeepsWhatNothingExceedsForFirstAndLaterMicroBatches) {
  EXPECT_EQ(maximal_shapes({{{2, 5}}, {{1, 9}}, {{2, 4}}, {{1, 8}}}), (std::vector<StepShape>{{{2, 5}}, {{1, 9}}}));
  const std::vector<StepShape> steps = {{{2, 5}, {2, 3}, {2, 7}}, {{2, 6}, {1, 8}}, {{1, 2}}};
  EXPECT_EQ(maximal_shapes(steps), (std::vector<StepShape>{{{2, 6}, {2, 7}}, {{2, 6}, {1, 8}}}));
  EXPECT_TRUE(maximal_shapes({}).empty());
}

TEST(MaximalSteps, OfRaggedDataWithAccumulationAreFew) {
  std::vector<int64_t> lengths;
  std::mt19937 random(9);
  for (int i = 0; i < 10000; ++i) lengths.push_back(1 + random() % 900);
  const data::Dataset dataset = dataset_of(lengths);
  const config::RunConfig config = config_of(2, 8, 3);
  const std::vector<StepShape> maximal = maximal_steps(config, dataset);
  EXPECT_LE(maximal.size(), 2u);
  EXPECT_EQ(maximal, maximal_shapes(step_shapes(config, dataset)));
}

TEST(StepOrder, RefusesMoreStepsThanCanBePlanned) { EXPECT_THROW(StepOrder(config_of(1, 1, 1e300), 10), UsageError); }

TEST(EvaluationRows, CoverTheDatasetInOrder) {
  EXPECT_EQ(evaluation_rows(5, 2), (std::vector<std::vector<int64_t>>{{0, 1}, {2, 3}, {4}}));
}

}  // namespace
}  // namespace fathom::train
