// The order of steps: epochs, accumulation, totals, bins, and resuming.
#include "schedule/step_order.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/error.h"
#include "config/load.h"
#include "tests/schedule/order_cases.h"

namespace fathom::schedule {
namespace {

using testing::config_of;
using testing::dataset_of;

data::Dataset examples(int64_t count) { return dataset_of(std::vector<int64_t>(static_cast<size_t>(count), 3)); }

TEST(StepOrder, AGroupNeverCrossesTheEndOfAPass) {
  // 10 examples in batches of 3: 4 batches a pass; accumulation 3 makes steps of 3 and 1 batches.
  StepOrder order(config_of(3, 3, 2), examples(10));
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
  EXPECT_EQ(StepOrder(config_of(2, 1, 1.5), examples(10)).total_steps(), 8);
  config::RunConfig config = config_of(2, 1, 1.5);
  config.max_steps = 3;
  EXPECT_EQ(StepOrder(config, examples(10)).total_steps(), 3);
}

TEST(WithoutLateEvaluations, LeavesOutWhatTheRunEndsBefore) {
  config::RunConfig config = config_of(2, 1, 1);  // five steps
  config.eval_strategy = config::Cadence::kSteps;
  config.eval_steps = 5;
  config.load_best_model_at_end = true;
  config.early_stopping_patience = 2;
  EXPECT_EQ(config::to_yaml(without_late_evaluations(config, examples(10))), config::to_yaml(config));
  EXPECT_EQ(config::to_yaml(without_late_evaluations(config, {})), config::to_yaml(config)) << "no data, no end";

  config.eval_steps = 0;
  config.logging_steps = 6;
  EXPECT_EQ(config::to_yaml(without_late_evaluations(config, examples(12))), config::to_yaml(config));
  const config::RunConfig changed = without_late_evaluations(config, examples(10));
  EXPECT_EQ(changed.eval_strategy, config::Cadence::kNo);
  EXPECT_FALSE(changed.load_best_model_at_end);
  EXPECT_EQ(changed.early_stopping_patience, 0);

  config.eval_strategy = config::Cadence::kEpoch;
  EXPECT_EQ(config::to_yaml(without_late_evaluations(config, examples(10))), config::to_yaml(config));
}

TEST(StepOrder, SeekingResumesTheSameOrder) {
  StepOrder whole(config_of(3, 2, 3), examples(17));
  whole.next();
  whole.next();
  StepOrder resumed(config_of(3, 2, 3), examples(17));
  resumed.seek(whole.position());
  for (int step = 0; step < 5; ++step) EXPECT_EQ(whole.next(), resumed.next());
}

TEST(StepOrder, RefusesMoreStepsThanCanBePlanned) {
  EXPECT_THROW(StepOrder(config_of(1, 1, 1e300), examples(10)), UsageError);
}

std::vector<int64_t> random_lengths(int count, int64_t longest) {
  std::vector<int64_t> lengths;
  std::mt19937 random(4);
  for (int i = 0; i < count; ++i) lengths.push_back(2 + static_cast<int64_t>(random()) % (longest - 1));
  return lengths;
}

TEST(StepOrder, PackedPassesHandOutEachExampleOnceInAnOrderOfTheirOwn) {
  config::RunConfig config = config_of(2, 3, 2);
  config.packing = true;
  config.max_length = 100;
  const data::Dataset dataset = dataset_of(random_lengths(200, 60));
  StepOrder order(config, dataset);
  std::vector<std::vector<int64_t>> passes;
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<int64_t>& rows = passes.emplace_back();
    for (int64_t step = 0; step < order.steps_per_epoch(); ++step) {
      for (const auto& micro_batch : order.next()) {
        int64_t tokens = 0;
        for (const int64_t row : micro_batch) tokens += dataset.length(row);
        EXPECT_LE(tokens, 2 * config.max_length);
        rows.insert(rows.end(), micro_batch.begin(), micro_batch.end());
      }
    }
    EXPECT_EQ(rows.size(), 200u);
    EXPECT_EQ(std::set<int64_t>(rows.begin(), rows.end()).size(), 200u);
  }
  EXPECT_NE(passes[0], passes[1]);
}

TEST(StepOrder, ResumesAnywherePackedOrGrouped) {
  for (const bool packing : {false, true}) {
    config::RunConfig config = config_of(2, 3, 3);
    config.packing = packing;
    config.group_by_length = !packing;
    config.max_length = 100;
    const data::Dataset dataset = dataset_of(random_lengths(100, 60));
    StepOrder whole(config, dataset);
    for (int64_t step = 0; step < whole.total_steps(); ++step) {
      StepOrder resumed(config, dataset);
      resumed.seek(whole.position());
      EXPECT_EQ(whole.next(), resumed.next()) << step;
      EXPECT_EQ(whole.position(), resumed.position());
    }
  }
}

TEST(EvaluationRows, CoverTheDatasetInOrder) {
  config::RunConfig config;
  config.per_device_eval_batch_size = 2;
  EXPECT_EQ(evaluation_rows(config, examples(5)), (std::vector<std::vector<int64_t>>{{0, 1}, {2, 3}, {4}}));
  config.packing = true;
  config.max_length = 7;  // two of three tokens in a bin
  EXPECT_EQ(evaluation_rows(config, examples(5)), (std::vector<std::vector<int64_t>>{{0, 1, 2, 3}, {4}}));
}

TEST(BatchOf, PacksOrPads) {
  config::RunConfig config;
  const data::Dataset dataset = dataset_of({3, 5});
  config.pad_to_multiple_of = 4;
  EXPECT_EQ(batch_of(config, dataset, {0, 1}, 0).length, 8);
  config.packing = true;
  EXPECT_EQ(batch_of(config, dataset, {0, 1}, 0).document_lengths, (std::vector<int64_t>{3, 5}));
}

}  // namespace
}  // namespace fathom::schedule
