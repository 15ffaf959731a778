// Shapes from lengths, and which of them can make a run's maxima.
#include "schedule/steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/schedule/order_cases.h"

namespace fathom::schedule {
namespace {

using ::testing::AllOf;
using testing::config_of;
using testing::dataset_of;
using ::testing::HasSubstr;
using testing::pairs_of;
using ::testing::ThrowsMessage;

TEST(StepShapes, LengthsAreThoseOfTheLongestRow) {
  config::RunConfig config = config_of(2, 1, 1);
  config.shuffle = false;
  const std::vector<StepShape> shapes = step_shapes(config, dataset_of({3, 9, 4, 4, 7}));
  EXPECT_EQ(shapes, (std::vector<StepShape>{{{2, 9, 10}}, {{2, 4, 6}}, {{1, 7, 6}}}));
}

TEST(MaximalShapes, KeepsWhatNothingExceedsForFirstAndLaterMicroBatches) {
  EXPECT_EQ(maximal_shapes({{{2, 5}}, {{1, 9}}, {{2, 4}}, {{1, 8}}}), (std::vector<StepShape>{{{2, 5}}, {{1, 9}}}));
  const std::vector<StepShape> steps = {{{2, 5}, {2, 3}, {2, 7}}, {{2, 6}, {1, 8}}, {{1, 2}}};
  EXPECT_EQ(maximal_shapes(steps), (std::vector<StepShape>{{{2, 6}, {2, 7}}, {{2, 6}, {1, 8}}}));
  EXPECT_TRUE(maximal_shapes({}).empty());
}

TEST(MaximalShapes, KeepsTheMostTargetsWhereNoLongerBatchHasAsMany) {
  EXPECT_EQ(maximal_shapes({{{2, 50, 9}}, {{2, 20, 30}}, {{2, 20, 8}}, {{2, 49, 9}}, {{2, 30, 30}}}),
            (std::vector<StepShape>{{{2, 50, 9}}, {{2, 30, 30}}}));
  // Where every token counts the rows are not copied: another that copies as many may take more.
  EXPECT_EQ(maximal_shapes({{{1, 8, 8}}, {{1, 8, 7}}, {{1, 7, 7}}}),
            (std::vector<StepShape>{{{1, 8, 8}}, {{1, 8, 7}}}));
}

TEST(StepShapes, LengthsAreRoundedUpAndPackedOnesEndToEnd) {
  config::RunConfig config = config_of(2, 1, 1);
  config.shuffle = false;
  config.pad_to_multiple_of = 8;
  const data::Dataset dataset = dataset_of({3, 9, 4, 4, 7});
  EXPECT_EQ(step_shapes(config, dataset), (std::vector<StepShape>{{{2, 16, 10}}, {{2, 8, 6}}, {{1, 8, 6}}}));
  config.pad_to_multiple_of = 0;
  config.packing = true;
  config.max_length = 11;  // bins {0, 3}, {1}, {2, 4}
  EXPECT_EQ(step_shapes(config, dataset), (std::vector<StepShape>{{{1, 16, 13, {3, 4, 9}}}, {{1, 11, 9, {4, 7}}}}));
  config.per_device_eval_batch_size = 1;
  EXPECT_EQ(evaluation_shapes(config, dataset),
            (std::vector<BatchShape>{{1, 7, 5, {3, 4}}, {1, 9, 8, {9}}, {1, 11, 9, {4, 7}}}));
}

TEST(StepShapes, OfPairsHaveTheLongestSourceAndTheLongestTarget) {
  config::RunConfig config = config_of(2, 1, 1);
  config.shuffle = false;
  const data::Dataset pairs = pairs_of({{3, 9}, {8, 2}, {4, 1}});
  EXPECT_EQ(step_shapes(config, pairs), (std::vector<StepShape>{{{2, 9, 11, {}, 8}}, {{1, 1, 1, {}, 4}}}));
  config.per_device_eval_batch_size = 3;
  EXPECT_EQ(evaluation_shapes(config, pairs), (std::vector<BatchShape>{{3, 9, 12, {}, 8}}));
  config.pad_to_multiple_of = 4;
  EXPECT_EQ(step_shapes(config, pairs), (std::vector<StepShape>{{{2, 12, 11, {}, 8}}, {{1, 4, 1, {}, 4}}}));
}

TEST(MaximalShapes, LetALargerSourceStandForASmallerOne) {
  EXPECT_EQ(maximal_shapes({{{1, 5, 5, {}, 9}}, {{1, 5, 5, {}, 7}}, {{1, 4, 4, {}, 12}}, {{1, 4, 4, {}, 9}}}),
            (std::vector<StepShape>{{{1, 5, 5, {}, 9}}, {{1, 4, 4, {}, 12}}}));
}

TEST(LargestBatch, IsAsLongAsTheRunTakesSamples) {
  config::RunConfig config = config_of(3, 1, 1);
  config.max_length = 20;
  arch::Architecture decoder, encoder;
  decoder.layers.resize(1);
  encoder.layers.resize(2);
  encoder.encoder = arch::Encoder{1, 0};
  EXPECT_EQ(largest_batch(arch::resolve(config, decoder)), whole_batch(3, 20));
  EXPECT_EQ(largest_batch(arch::resolve(config, encoder)), (BatchShape{3, 20, 60, {}, 20}))
      << "targets as long as sources";
  config.max_target_length = 7;
  EXPECT_EQ(largest_batch(arch::resolve(config, encoder)), (BatchShape{3, 7, 21, {}, 20}));
  EXPECT_EQ(largest_batch(arch::resolve(config, decoder)), whole_batch(3, 20));
  config.packing = true;
  EXPECT_EQ(largest_batch(arch::resolve(config, decoder)), whole_batch(3, 20, true));
}

TEST(LargestBatch, IsPaddedAsTheRunsAre) {
  config::RunConfig config;
  config.per_device_train_batch_size = 3;
  config.max_length = 20;
  config.pad_to_multiple_of = 16;
  arch::Architecture decoder, encoder;
  decoder.layers.resize(1);
  encoder.layers.resize(1);
  encoder.encoder.emplace();
  EXPECT_EQ(largest_batch(arch::resolve(config, decoder)), (BatchShape{3, 32, 57}));
  EXPECT_EQ(largest_batch(arch::resolve(config, encoder)), (BatchShape{3, 32, 60, {}, 32}));
  config.packing = true;
  EXPECT_EQ(largest_batch(arch::resolve(config, decoder)), whole_batch(3, 20, true));
}

TEST(LargestBatch, IsRefusedBeyondLearnedPositions) {
  arch::Run learned;
  learned.config = config_of(3, 1, 1);
  learned.architecture.learned_positions = true;
  learned.architecture.max_position_embeddings = learned.config.max_length = 1024;
  EXPECT_EQ(largest_batch(learned), whole_batch(3, 1024));
  learned.config.max_length = 2048;
  EXPECT_THAT([&] { largest_batch(learned); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("max_length: 2048"), HasSubstr("set max_length: 1024"))));
}

TEST(BatchOfLongest, HasTheLongestOfEach) {
  EXPECT_EQ(batch_of_longest(2, {{{4, 5, 9, {}, 30}, {1, 3, 3, {}, 31}}, {{1, 8, 3, {}, 6}}}, false),
            (BatchShape{2, 8, 16, {}, 31}));
  EXPECT_EQ(batch_of_longest(2, {{{4, 5, 9}}, {{1, 8, 3}}}, false), whole_batch(2, 8));
  EXPECT_EQ(batch_of_longest(2, {{{1, 16, 13, {3, 4, 9}}}}, true), whole_batch(2, 9, true));
  EXPECT_EQ(longest_sequence({1, 5, 5, {}, 9}), 9);
  EXPECT_EQ(longest_sequence({1, 10, 5, {}, 9}), 10);
}

}  // namespace
}  // namespace fathom::schedule
