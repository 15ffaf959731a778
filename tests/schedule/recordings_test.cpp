// Of a run that records its layers what is played meets each recording, and each batch beside as many of them.
#include "schedule/recordings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/dice.h"
#include "tests/schedule/order_cases.h"
#include "tests/seed.h"

namespace fathom::schedule {
namespace {

using fathom::testing::Dice;

// A batch, beside how many recordings, and whether it is replayed.
struct Met {
  BatchShape batch;
  size_t recorded = 0;
  bool replayed = false;
};

// Said again beside Recordings: a shape that comes for the second time is recorded, of sixteen.
std::vector<Met> met_by(const std::vector<BatchShape>& batches) {
  using Kind = std::pair<int64_t, int64_t>;
  std::vector<Kind> known;
  std::set<Kind> recorded;
  std::vector<Met> met;
  for (const BatchShape& batch : batches) {
    const Kind kind(batch.rows, batch.length);
    const bool came = std::find(known.begin(), known.end(), kind) != known.end();
    if (!came) known.push_back(kind);
    if (came && recorded.size() < 16) recorded.insert(kind);
    met.push_back({batch, recorded.size(), recorded.contains(kind)});
  }
  return met;
}

bool covers(const Met& large, const Met& small) {
  return std::tuple(large.recorded, large.replayed, large.batch.rows) ==
             std::tuple(small.recorded, small.replayed, small.batch.rows) &&
         large.batch.length >= small.batch.length && large.batch.targets >= small.batch.targets;
}

std::vector<BatchShape> batches_of(const Schedule& schedule) {
  std::vector<BatchShape> batches;
  for (const int32_t event : schedule.events) {
    if (event != Schedule::kEvaluation) batches.push_back(schedule.steps[static_cast<size_t>(event)].front());
  }
  return batches;
}

TEST(Recordings, OfARunAreAllPlayedAndEachBatchBesideAsMany) {
  Dice dice(fathom::testing::seed());
  int represented = 0, full = 0;
  for (int number = 0; number < 60 && !HasFailure(); ++number) {
    SCOPED_TRACE("draw " + std::to_string(number));
    config::RunConfig config = testing::config_of(dice.between(1, 4), 1, dice.between(1, 3));
    config.cuda_graphs = true;
    config.shuffle = dice.chance(0.7);
    const int64_t longest = dice.between(2, 60);
    if (dice.chance(0.5)) config.pad_to_multiple_of = dice.between(1, 16);
    std::vector<int64_t> lengths;
    for (int64_t line = dice.between(100, 1'500); line > 0; --line) lengths.push_back(dice.between(2, longest));
    arch::Architecture architecture;
    architecture.layers.assign(2, {});
    const data::Dataset train = testing::dataset_of(lengths);
    const Schedule schedule = make_schedule(arch::resolve(config, architecture), train, {}, {}, 1);
    std::vector<BatchShape> batches;
    for (const StepShape& step : step_shapes(config, train)) batches.push_back(step.front());
    const std::vector<Met> all = met_by(batches), played = met_by(batches_of(schedule));
    EXPECT_EQ(all.back().recorded, played.back().recorded);
    size_t uncovered = 0;
    for (const Met& small : all) {
      uncovered += std::none_of(played.begin(), played.end(), [&](const Met& large) { return covers(large, small); });
    }
    EXPECT_EQ(uncovered, 0U) << "of " << all.size() << ", " << played.size() << " played";
    represented += schedule.all_shapes ? 0 : 1;
    full += all.back().recorded == 16 ? 1 : 0;
  }
  EXPECT_GT(represented, 30);
  EXPECT_GT(full, 5);
}

TEST(Recordings, TheLargestIsCountedApart) {
  Schedule schedule;
  schedule.steps = {{{2, 8, 7}}, {{2, 5, 4}}, {{2, 3, 2}}};
  schedule.events = {0, 1, Schedule::kEvaluation, 2, 0, 1, 0};
  EXPECT_EQ(recorded_beside_the_largest(schedule), 10);
}

}  // namespace
}  // namespace fathom::schedule
