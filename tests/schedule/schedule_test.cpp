// The order of a run: whole where it is short, by representatives where it is long, from wherever it begins.
#include "schedule/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "schedule/frontier.h"
#include "tests/schedule/order_cases.h"

namespace fathom::schedule {
namespace {

using testing::config_of;
using ::testing::Contains;
using testing::dataset_of;
using ::testing::ElementsAre;

constexpr int64_t kAll = 1'000'000'000, kLittle = 1;

arch::Architecture architecture_with(int64_t window) {
  arch::Architecture architecture;
  architecture.layers.assign(2, {.mixer = arch::Attention{.window = window}, .feed_forward = {}});
  return architecture;
}

config::RunConfig in_order(int64_t batch, double epochs) {
  config::RunConfig config = config_of(batch, 1, epochs);
  config.shuffle = false;
  return config;
}

data::Dataset ragged(int examples, int longest) {
  std::vector<int64_t> lengths;
  std::mt19937 random(9);
  for (int i = 0; i < examples; ++i)
    lengths.push_back(2 + static_cast<int64_t>(random() % static_cast<uint32_t>(longest)));
  return dataset_of(lengths);
}

TEST(Schedule, IsTheRunsOrderWithEvaluationsWhereTheyAreDue) {
  config::RunConfig config = in_order(1, 2);
  config.eval_strategy = config::Cadence::kSteps;
  config.eval_steps = 2;
  config.per_device_eval_batch_size = 1;
  const Schedule schedule = make_schedule(arch::resolve(config, architecture_with(0)), dataset_of({3, 9, 3}),
                                          dataset_of({4, 5, 4}), {.evaluation_due = true}, kAll);
  EXPECT_EQ(schedule.steps, (std::vector<StepShape>{{{1, 3, 2}}, {{1, 9, 8}}}));
  EXPECT_EQ(schedule.evaluation, (std::vector<BatchShape>{{1, 4, 3}, {1, 5, 4}}));
  EXPECT_THAT(schedule.evaluation_order, ElementsAre(0, 1, 0));
  constexpr int32_t kEvaluation = Schedule::kEvaluation;
  EXPECT_THAT(schedule.events, ElementsAre(kEvaluation, 0, 1, kEvaluation, 0, 0, kEvaluation, 1, 0, kEvaluation));
  EXPECT_TRUE(schedule.all_events);
  EXPECT_TRUE(schedule.all_shapes);
}

TEST(Schedule, HasNoEvaluationThatNeverComes) {
  config::RunConfig config = in_order(1, 1);
  const Schedule schedule =
      make_schedule(arch::resolve(config, architecture_with(0)), dataset_of({3}), dataset_of({4}), {}, kAll);
  EXPECT_TRUE(schedule.evaluation.empty());
  EXPECT_TRUE(schedule.evaluation_order.empty());
}

// A pass of the model as it is over all data, two rows for each preference; not again where a run goes on.
TEST(Schedule, BeginsWithTheReferenceOfPreferences) {
  config::RunConfig config = in_order(1, 1);
  config.objective = config::Objective::kDpo;
  config.per_device_eval_batch_size = 2;
  data::Dataset train = dataset_of({3, 4, 9, 5, 3, 3}), validation = dataset_of({4, 4});
  train.set_rows_of_example(2);
  validation.set_rows_of_example(2);
  const auto of = [&](const Start& start, int64_t played) {
    return make_schedule(arch::resolve(config, architecture_with(0)), train, validation, start, played);
  };
  const Schedule schedule = of({}, kAll);
  EXPECT_EQ(schedule.steps, (std::vector<StepShape>{{{2, 4, 5}}, {{2, 9, 12}}, {{2, 3, 4}}}));
  EXPECT_EQ(schedule.evaluation, (std::vector<BatchShape>{{4, 9, 17}, {2, 3, 4}, {2, 4, 6}}));
  EXPECT_THAT(schedule.reference_order, ElementsAre(0, 1, 2));
  EXPECT_TRUE(schedule.evaluation_order.empty());
  EXPECT_THAT(schedule.events, ElementsAre(Schedule::kReference, 0, 1, 2));
  EXPECT_EQ(schedule.extent.tokens, 36);
  EXPECT_EQ(of({}, 1).events.front(), Schedule::kReference);
  const Schedule rest = of({.step = 2, .position = {.index = 2}, .resumed = true}, kAll);
  EXPECT_TRUE(rest.evaluation.empty());
  EXPECT_THAT(rest.events, ElementsAre(0));

  config.eval_strategy = config::Cadence::kEpoch;
  const Schedule evaluated = of({}, kAll);
  EXPECT_THAT(evaluated.evaluation_order, ElementsAre(3));
  EXPECT_THAT(evaluated.events, ElementsAre(Schedule::kReference, 0, 1, 2, Schedule::kEvaluation));
}

// However long a pass is: a shape that comes late is played too.
TEST(Schedule, OfALongPassHasTheShapesThatComeLate) {
  std::vector<int64_t> lengths(20'010, 3);
  lengths.back() = 50;
  config::RunConfig config = in_order(1, 1);
  config.max_steps = 2;
  config.per_device_eval_batch_size = 1;
  config.eval_on_start = true;
  const Schedule evaluated = make_schedule(arch::resolve(config, architecture_with(0)), dataset_of({3, 3}),
                                           dataset_of(lengths), {.evaluation_due = true}, kAll);
  const auto is_played = [](const Schedule& schedule, const std::vector<int32_t>& order, int64_t length) {
    return std::any_of(order.begin(), order.end(), [&](int32_t number) {
      return schedule.evaluation[static_cast<size_t>(number)].length == length;
    });
  };
  EXPECT_TRUE(is_played(evaluated, evaluated.evaluation_order, 50));
  EXPECT_FALSE(evaluated.all_events);

  config.objective = config::Objective::kDpo;
  config.eval_on_start = false;
  lengths.insert(lengths.begin(), 20'010, 3);
  data::Dataset preferences = dataset_of(lengths);
  preferences.set_rows_of_example(2);
  const Schedule schedule =
      make_schedule(arch::resolve(config, architecture_with(0)), preferences, dataset_of({}), {}, kAll);
  EXPECT_TRUE(is_played(schedule, schedule.reference_order, 50));
  EXPECT_FALSE(schedule.all_events);
}

TEST(Schedule, BeginsWhereACheckpointLeftTheRun) {
  const config::RunConfig config = in_order(1, 2);
  const data::Dataset data = dataset_of({3, 4, 5});
  const Schedule rest = make_schedule(arch::resolve(config, architecture_with(0)), data, {},
                                      {.step = 4, .position = {.epoch = 1, .index = 1}}, kAll);
  EXPECT_EQ(rest.steps, (std::vector<StepShape>{{{1, 4, 3}}, {{1, 5, 4}}}));
  EXPECT_THAT(rest.events, ElementsAre(0, 1));
}

// Of four batches the second step of three processes has one.
TEST(Schedule, KeepsAStepThatOthersAloneHaveBatchesOf) {
  config::RunConfig config = in_order(1, 1);
  config.num_processes = 3;
  const data::Dataset data = dataset_of({3, 4, 5, 6});
  const auto of_rank = [&](int64_t rank) {
    return make_schedule(arch::resolve(config, architecture_with(0)), data, {}, {.step = 1, .position = {.index = 3}},
                         kAll, rank);
  };
  EXPECT_EQ(of_rank(0).steps, (std::vector<StepShape>{{{1, 6, 5}}}));
  EXPECT_THAT(of_rank(0).of_all, ElementsAre(1));
  EXPECT_EQ(of_rank(1).steps, (std::vector<StepShape>{{}}));
  EXPECT_THAT(of_rank(1).events, ElementsAre(0));
  EXPECT_THAT(of_rank(2).of_all, ElementsAre(1));
}

// Four processes, two micro-batches each: of fifteen batches seven are left for the second step.
TEST(Schedule, KnowsWhichStepsAreNotSharedEvenly) {
  config::RunConfig config = config_of(1, 2, 1);
  config.shuffle = false;
  config.num_processes = 4;
  const data::Dataset data = dataset_of(std::vector<int64_t>(15, 3));
  const auto of_rank = [&](int64_t rank, int64_t played) {
    return make_schedule(arch::resolve(config, architecture_with(0)), data, {}, {}, played, rank);
  };
  const BatchShape batch{1, 3, 2};
  const Schedule most = of_rank(0, kAll), least = of_rank(3, kAll);
  EXPECT_EQ(most.steps, (std::vector<StepShape>{{batch, batch}, {batch, batch}}));
  EXPECT_THAT(most.of_all, ElementsAre(0, 7));
  EXPECT_EQ(least.steps, (std::vector<StepShape>{{batch, batch}, {batch}}));
  EXPECT_THAT(least.of_all, ElementsAre(0, 7));
  EXPECT_THAT(least.events, ElementsAre(0, 1));
  // Of a long run, where representatives are played, it is one of them.
  config.num_train_epochs = 20;
  EXPECT_THAT(of_rank(3, kLittle).of_all, Contains(7));
  // Of 6 micro-batches of rank 1 in an only step, where rank 0 has 7, three are played: 2 x 3 of 2 x 6 are not.
  config = config_of(1, 8, 20);
  config.num_processes = 2;
  const Schedule begun = make_schedule(arch::resolve(config, architecture_with(0)),
                                       dataset_of(std::vector<int64_t>(13, 3)), {}, {}, kLittle, 1);
  EXPECT_EQ(begun.steps.front(), (StepShape{batch, batch, batch}));
  EXPECT_EQ(begun.of_all.front(), 7);
}

TEST(Schedule, KnowsWhereOthersAloneEndAnEvaluation) {
  config::RunConfig config = in_order(1, 1);
  config.num_processes = 3;
  config.per_device_eval_batch_size = 1;
  config.eval_strategy = config::Cadence::kEpoch;
  const auto others_do = [&](int64_t rank, const data::Dataset& validation) {
    const Schedule schedule =
        make_schedule(arch::resolve(config, architecture_with(0)), dataset_of({3, 3, 3}), validation, {}, kAll, rank);
    EXPECT_THAT(schedule.events, Contains(Schedule::kEvaluation));
    return schedule.others_evaluate_one_more;
  };
  const data::Dataset one = dataset_of({4}), four = dataset_of({4, 4, 4, 4}), three = dataset_of({4, 4, 4});
  for (int64_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(others_do(rank, one), rank > 0);  // the others of which have none at all
    EXPECT_EQ(others_do(rank, four), rank > 0);
    EXPECT_FALSE(others_do(rank, three));
  }
}

TEST(Schedule, OfEqualStepsIsShortHoweverLongTheRun) {
  config::RunConfig config = in_order(1, 1);
  config.max_steps = 50'000;
  const Schedule schedule = make_schedule(arch::resolve(config, architecture_with(0)), dataset_of({7, 7}), {}, {}, 4);
  EXPECT_EQ(schedule.steps.size(), 1u);
  EXPECT_LT(schedule.events.size(), 50'000u);
  EXPECT_FALSE(schedule.all_events);
  EXPECT_TRUE(schedule.all_shapes);
}

TEST(Schedule, OfALongRaggedRunHasItsFirstStepsAndItsMaxima) {
  const config::RunConfig config = config_of(2, 8, 3);
  const data::Dataset data = ragged(10'000, 900);
  const std::vector<StepShape> steps = step_shapes(config, data);
  for (const int64_t played : {kLittle, int64_t{2'000}}) {
    const Schedule schedule = make_schedule(arch::resolve(config, architecture_with(0)), data, {}, {}, played);
    EXPECT_FALSE(schedule.all_shapes);
    EXPECT_LE(schedule.steps.size(), 200u);
    EXPECT_EQ(schedule.steps[0].front(), steps[0].front());
    EXPECT_EQ(schedule.steps[1].front(), steps[1].front());
    for (const StepShape& maximal : maximal_shapes(steps)) {
      for (size_t i = 0; i < maximal.size(); ++i) {
        EXPECT_TRUE(std::any_of(schedule.steps.begin(), schedule.steps.end(), [&](const StepShape& step) {
          return i == 0 ? step.front() == maximal[0]
                        : std::find(step.begin() + 1, step.end(), maximal[i]) != step.end();
        }));
      }
    }
  }
}

// Kernels, and an allocator's pool of small blocks, are chosen by size: a small batch may need what no large one does.
TEST(Schedule, OfALongRaggedRunHasBatchesOfEachSize) {
  const Schedule schedule =
      make_schedule(arch::resolve(config_of(1, 1, 1), architecture_with(0)), ragged(5'000, 1'000), {}, {}, 2'000);
  for (const int64_t size : {128, 256, 512, 1'000}) {
    EXPECT_TRUE(std::any_of(schedule.steps.begin(), schedule.steps.end(), [&](const StepShape& step) {
      return step.front().length <= size && step.front().length > size * 3 / 4;
    })) << size;
  }
}

// The threads of a CPU share the rows out: four may take more scratch memory than five of the same length.
TEST(Schedule, OfALongRaggedRunHasTheLargestBatchOfEachNumberOfRows) {
  std::vector<int64_t> lengths;
  std::mt19937 random(9);
  for (int i = 0; i < 1'500; ++i) lengths.push_back(100 + static_cast<int64_t>(random() % 30));
  lengths.insert(lengths.end(), 9, 129);
  for (const int64_t played : {kLittle, int64_t{300}}) {
    const Schedule schedule =
        make_schedule(arch::resolve(in_order(5, 1), architecture_with(0)), dataset_of(lengths), {}, {}, played);
    EXPECT_FALSE(schedule.all_shapes);
    EXPECT_THAT(schedule.steps, Contains(StepShape{{5, 129, 5 * 128}}));
    EXPECT_THAT(schedule.steps, Contains(StepShape{{4, 129, 4 * 128}}));
  }
}

TEST(Schedule, OfALongRunEvaluatesAmongItsStepsAndAtTheEnd) {
  config::RunConfig config = config_of(1, 1, 1);
  config.eval_strategy = config::Cadence::kSteps;
  config.eval_steps = 100;
  const Schedule schedule = make_schedule(arch::resolve(config, architecture_with(0)), ragged(3'000, 500),
                                          ragged(500, 700), {.evaluation_due = true}, kLittle);
  EXPECT_EQ(schedule.events.front(), Schedule::kEvaluation);
  EXPECT_EQ(schedule.events.back(), Schedule::kEvaluation);
  EXPECT_LT(schedule.evaluation.size(), 100u);
}

// After a smaller batch an allocator may reserve less for the largest one than for it alone, or more.
TEST(Schedule, OfALongRunPlaysAShortEvaluationAsItIs) {
  config::RunConfig config = config_of(1, 1, 1);
  config.per_device_eval_batch_size = 1;
  const auto made = [&](int64_t played) {
    return make_schedule(arch::resolve(config, architecture_with(0)), ragged(3'000, 900), dataset_of({801, 803, 801}),
                         {.evaluation_due = true}, played);
  };
  EXPECT_FALSE(made(3'000).all_shapes);
  EXPECT_EQ(made(3'000).evaluation, (std::vector<BatchShape>{{1, 801, 800}, {1, 803, 802}}));
  EXPECT_THAT(made(3'000).evaluation_order, ElementsAre(0, 1, 0));
  EXPECT_EQ(made(kLittle).evaluation, (std::vector<BatchShape>{{1, 803, 802}}));
}

// What a library takes during the first step would be in an evaluation after it, and is in none of the run's.
TEST(Schedule, OfALongRunThatEvaluatesBeforeItsFirstStepAloneDoesNotEvaluateAtTheEnd) {
  config::RunConfig config = config_of(1, 1, 1);
  config.eval_strategy = config::Cadence::kNo;
  const Schedule schedule = make_schedule(arch::resolve(config, architecture_with(0)), ragged(3'000, 500),
                                          ragged(50, 70), {.evaluation_due = true}, kLittle);
  EXPECT_FALSE(schedule.all_shapes);
  EXPECT_EQ(schedule.events.front(), Schedule::kEvaluation);
  EXPECT_EQ(std::count(schedule.events.begin(), schedule.events.end(), Schedule::kEvaluation), 1);
}

// Beyond the window other kernels run, which may take less than those within it.
TEST(Frontier, DoesNotLetALongSequenceStandForOneWithinTheWindow) {
  for (const int64_t window : {int64_t{0}, int64_t{256}}) {
    Frontier frontier(KernelTraits{window, 0});
    for (const int64_t length : {200, 256, 257, 300}) frontier.add({1, length, length - 1});
    std::vector<int64_t> lengths;
    for (const Frontier::Member& member : frontier.members()) lengths.push_back(member.shape.length);
    EXPECT_EQ(lengths, window == 0 ? std::vector<int64_t>{300} : (std::vector<int64_t>{256, 300}));
  }
}

TEST(Frontier, KnowsWhatCameFirstAndWhatCameAgain) {
  Frontier frontier;
  frontier.add({2, 5, 3}, 0);
  frontier.add({1, 9, 3}, 1);
  frontier.add({2, 4, 3}, 2);
  frontier.add({1, 9, 3}, 3);
  const std::vector<Frontier::Member> members = frontier.members();
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[0].shape, (BatchShape{2, 5, 3}));
  EXPECT_FALSE(members[0].again);
  EXPECT_EQ(members[1].first, 1);
  EXPECT_TRUE(members[1].again);
}

// Kernels are chosen by size, and an encoder's tokens count as a decoder's do.
TEST(Frontier, TellsSizesApartBySourcesToo) {
  Frontier all, by_size({}, Frontier::Within::kSize);
  for (Frontier* frontier : {&all, &by_size}) {
    frontier->add({1, 8, 8, {}, 16});
    frontier->add({1, 8, 8, {}, 900});
  }
  EXPECT_EQ(all.members().size(), 1u);
  EXPECT_EQ(by_size.members().size(), 2u);
}

TEST(Schedule, OfPairsKeepsTheirSources) {
  const Schedule schedule = make_schedule(arch::resolve(in_order(1, 1), architecture_with(0)),
                                          testing::pairs_of({{5, 2}, {3, 4}}), {}, {}, kAll);
  EXPECT_EQ(schedule.steps, (std::vector<StepShape>{{{1, 2, 2, {}, 5}}, {{1, 4, 4, {}, 3}}}));
}

}  // namespace
}  // namespace fathom::schedule
