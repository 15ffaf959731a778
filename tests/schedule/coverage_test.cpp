// Whatever a schedule leaves out of a long run is covered by what it lists: of random runs, each micro-batch of each
// step by one that a step treats alike, each batch of an evaluation by another, and the ring's room by the largest.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <tuple>

#include "arch/attention_by_scores.h"
#include "schedule/frontier.h"
#include "schedule/schedule.h"
#include "tests/dice.h"
#include "tests/schedule/order_cases.h"
#include "tests/seed.h"

namespace fathom::schedule {
namespace {

using fathom::testing::Dice;

struct Run {
  config::RunConfig config;
  arch::Architecture architecture;
  data::Dataset train, validation;
  Start start;
  int64_t played = 1, rank = 0;
};

// Of lengths: all alike, a few kinds, any up to some, or short ones with a rare long one among them.
std::vector<int64_t> draw_lengths(Dice& dice, int64_t count, int64_t longest) {
  const int64_t kind = dice.between(0, 3), kinds = dice.between(2, 5), one = dice.between(1, longest);
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i) {
    if (kind == 0) lengths.push_back(one);
    if (kind == 1) lengths.push_back(1 + dice.between(1, kinds) * longest / (kinds + 1));
    if (kind == 2) lengths.push_back(dice.between(1, longest));
    if (kind == 3)
      lengths.push_back(dice.between(1, 500) == 1 ? longest : dice.between(1, std::min<int64_t>(8, longest)));
  }
  return lengths;
}

data::Dataset draw_data(Dice& dice, int64_t count, int64_t longest, bool pairs, bool prompts) {
  const std::vector<int64_t> lengths = draw_lengths(dice, count, longest);
  if (pairs) {
    const std::vector<int64_t> targets = draw_lengths(dice, count, longest);
    std::vector<std::pair<int64_t, int64_t>> both;
    for (size_t i = 0; i < lengths.size(); ++i) both.emplace_back(lengths[i], targets[i]);
    return testing::pairs_of(both);
  }
  std::vector<data::Example> examples;
  for (const int64_t length : lengths) {
    data::Example& example = examples.emplace_back();
    example.ids.assign(static_cast<size_t>(length), 1);
    example.labels = example.ids;
    const int64_t ignored = prompts ? dice.between(0, length - 1) : 0;
    std::fill_n(example.labels.begin(), ignored, static_cast<int32_t>(data::kIgnored));
  }
  return data::Dataset(examples);
}

// So that an evaluation has the batches of a pass.
config::RunConfig as_evaluated(config::RunConfig config) {
  config.per_device_eval_batch_size = config.per_device_train_batch_size;
  return config;
}

// Up to 5,000 micro-batches in a step, and up to some thousand steps.
Run draw_run(Dice& dice) {
  Run run;
  config::RunConfig& config = run.config;
  config.per_device_train_batch_size = dice.of_any_size(1, 8);
  config.per_device_eval_batch_size = dice.of_any_size(1, 8);
  config.gradient_accumulation_steps = dice.of_any_size(1, 5'000);
  config.num_train_epochs = static_cast<double>(dice.between(1, 3));
  config.shuffle = dice.chance(0.7);
  config.seed = dice.between(0, 1'000);
  config.group_by_length = config.shuffle && dice.chance(0.2);
  config.num_processes = dice.chance(0.4) ? dice.between(2, 5) : 1;
  const bool pairs = dice.chance(0.25);
  config.packing = !pairs && !config.group_by_length && dice.chance(0.25);
  if (!config.packing && dice.chance(0.2)) config.pad_to_multiple_of = dice.between(1, 64);
  const int64_t longest = dice.between(2, 2'000);
  config.max_length = longest;
  const bool prompts = dice.chance(0.5);
  run.train =
      draw_data(dice, dice.chance(0.7) ? dice.between(200, 6'000) : dice.between(60, 200), longest, pairs, prompts);
  const auto batches = std::ssize(evaluation_rows(as_evaluated(config), run.train));
  config.num_processes = std::min<int64_t>(config.num_processes, batches);
  run.rank = dice.between(0, config.num_processes - 1);
  if (dice.chance(0.5)) {
    run.validation =
        draw_data(dice, dice.between(1, 400), dice.between(1, config.packing ? longest : 2 * longest), pairs, prompts);
    config.eval_strategy = dice.chance(0.5) ? config::Cadence::kEpoch : config::Cadence::kSteps;
    config.eval_steps = dice.between(1, 5);
    run.start.evaluation_due = dice.chance(0.5);
  }
  arch::Attention attention;
  attention.heads = dice.chance(0.5) ? 32 : 2;
  if (dice.chance(0.5)) attention.window = dice.between(1, longest + 5);
  if (!config.packing && dice.chance(0.4)) attention.softcap = 30;
  run.architecture.layers.assign(static_cast<size_t>(dice.between(1, 40)), {.mixer = attention, .feed_forward = {}});
  const std::array<int64_t, 4> played = {1, played_on(false), played_on(true), 100'000};
  run.played = played[static_cast<size_t>(dice.between(0, 3))];
  return run;
}

// What memory follows, said again beside Frontier.
struct Sizes {
  int64_t rows, length, targets, source, documents, longest, squares, scores_of_rows, scores_of_sources, scores_of_both;
  bool beyond_window, gathers;
  explicit Sizes(const BatchShape& batch, const arch::Architecture& architecture)
      : rows(batch.rows),
        length(batch.length),
        targets(batch.targets),
        source(batch.source_length),
        documents(std::ssize(batch.document_lengths)),
        longest(0),
        squares(0),
        gathers(batch.targets < batch.rows * batch.length) {
    for (const int64_t document : batch.document_lengths) {
      longest = std::max(longest, document);
      squares += document * document;
    }
    const arch::Attention& attention = architecture.layers.front().attention();
    beyond_window = attention.window > 0 && longest_sequence(batch) > attention.window;
    const auto scores = [&](int64_t queries, int64_t keys) {
      if (attention.softcap == 0 || queries * keys == 0) return int64_t{0};
      const int64_t groups = rows * attention.heads;
      return groups * keys * std::clamp<int64_t>((int64_t{1} << 22) / (groups * keys), 1, queries);
    };
    scores_of_rows = scores(length, length);
    scores_of_sources = scores(source, source);
    scores_of_both = scores(length, source);
  }
  bool covers(const Sizes& small) const {
    return rows == small.rows && beyond_window == small.beyond_window && length >= small.length &&
           targets >= small.targets && source >= small.source && documents >= small.documents &&
           longest >= small.longest && squares >= small.squares && scores_of_rows >= small.scores_of_rows &&
           scores_of_sources >= small.scores_of_sources && scores_of_both >= small.scores_of_both &&
           (gathers || !small.gathers);
  }
  auto key() const { return std::tuple(rows, length, targets, source, documents, longest, squares); }
};

enum Place { kAlone, kBegins, kStands, kEnds };
Place place_of(size_t at, size_t count) {
  const bool begins = at == 0, ends = at + 1 == count;
  return begins && ends ? kAlone : begins ? kBegins : ends ? kEnds : kStands;
}

class Shapes {
 public:
  explicit Shapes(const arch::Architecture& architecture) : architecture_(architecture) {}
  void add(const StepShape& step) {
    for (size_t i = 0; i < step.size(); ++i) add(step[i], place_of(i, step.size()));
  }
  void add(const BatchShape& batch, Place place) {
    const Sizes sizes(batch, architecture_);
    if (known_[place].insert(sizes.key()).second) sizes_[place].push_back(sizes);
    room_.widen(batch);
  }
  const Extent& room() const { return room_; }
  size_t size() const {
    return sizes_[kAlone].size() + sizes_[kBegins].size() + sizes_[kStands].size() + sizes_[kEnds].size();
  }
  // How many of the others none of these covers in its place.
  size_t uncovered(const Shapes& others) const {
    size_t count = 0;
    for (const Place place : {kAlone, kBegins, kStands, kEnds}) {
      for (const Sizes& small : others.sizes_[place]) {
        const auto covers = [&](const Sizes& large) { return large.covers(small); };
        if (std::none_of(sizes_[place].begin(), sizes_[place].end(), covers)) ++count;
      }
    }
    return count;
  }

 private:
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;
  const arch::Architecture& architecture_;
  std::array<std::vector<Sizes>, 4> sizes_;
  std::array<std::set<Key>, 4> known_;
  Extent room_;
};

// What is counted over all draws, so that the test is of something.
struct Seen {
  int represented = 0, accumulated = 0, uneven = 0, evaluated = 0, beyond = 0;
  int64_t most_played = 0;
};

void check(const Run& run, Seen& seen) {
  const Schedule schedule = make_schedule(arch::resolve(run.config, run.architecture), run.train, run.validation,
                                          run.start, run.played, run.rank);
  Shapes all(run.architecture), listed(run.architecture), evaluated(run.architecture),
      listed_evaluations(run.architecture);
  StepOrder order(run.config, run.train);
  bool evaluates = run.start.evaluation_due, has_empty = false;
  for (int64_t step = 1; step <= order.total_steps(); ++step) {
    auto batches = order.next();
    const int64_t of_all = std::ssize(batches);
    const StepShape shape = shapes_of(run.config, run.train, std::move(batches), run.rank);
    all.add(shape);
    has_empty = has_empty || shape.empty();
    seen.uneven += of_all == std::ssize(shape) * run.config.num_processes ? 0 : 1;
    seen.accumulated += shape.size() > 3 ? 1 : 0;
    evaluates = evaluates || evaluates_after(run.config, order, step);
  }
  int64_t played = 0;
  std::set<int32_t> played_events(schedule.events.begin(), schedule.events.end());
  bool lists_empty = false;
  for (const StepShape& step : schedule.steps) {
    listed.add(step);
    lists_empty = lists_empty || step.empty();
    played += std::ssize(step);
  }
  for (int32_t step = 0; step < std::ssize(schedule.steps); ++step) EXPECT_TRUE(played_events.contains(step));
  EXPECT_EQ(listed.uncovered(all), 0U) << "of " << all.size();
  EXPECT_EQ(lists_empty, has_empty);
  Extent room = all.room();
  if (evaluates && !run.validation.empty()) {
    auto rows = evaluation_rows(run.config, run.validation);
    const bool others = others_have_one_more(std::ssize(rows), run.rank, run.config.num_processes);
    for (const BatchShape& batch : shapes_of(run.config, run.validation, std::move(rows), run.rank)) {
      evaluated.add(batch, kAlone);
      room.widen(batch);
    }
    for (const BatchShape& batch : schedule.evaluation) listed_evaluations.add(batch, kAlone);
    EXPECT_EQ(listed_evaluations.uncovered(evaluated), 0U) << "of " << evaluated.size();
    EXPECT_EQ(schedule.others_evaluate_one_more, others);
    EXPECT_TRUE(played_events.contains(Schedule::kEvaluation));
    ++seen.evaluated;
  }
  EXPECT_EQ(schedule.extent, room);
  if (schedule.all_shapes) return;
  ++seen.represented;
  seen.most_played = std::max(seen.most_played, played);
}

TEST(Coverage, OfEveryMicroBatchOfARunIsPlayedInItsPlace) {
  Dice dice(fathom::testing::seed());
  Seen seen;
  for (int number = 0; number < 120 && !HasFailure(); ++number) {
    SCOPED_TRACE("draw " + std::to_string(number));
    check(draw_run(dice), seen);
  }
  EXPECT_GT(seen.represented, 30);
  EXPECT_GT(seen.accumulated, 100);
  EXPECT_GT(seen.uneven, 10);
  EXPECT_GT(seen.evaluated, 30);
  // As few as can be waited for.
  EXPECT_LT(seen.most_played, 2'000);
}

// The sixth of 120 lines is the longest, in the only step.
TEST(Coverage, OfALongMicroBatchAmongManyOfOneStep) {
  std::vector<int64_t> lengths(120, 4);
  lengths[5] = 200;
  config::RunConfig config = testing::config_of(1, 120, 1);
  config.shuffle = false;
  arch::Architecture architecture;
  architecture.layers.assign(4, {});
  const Schedule schedule =
      make_schedule(arch::resolve(config, architecture), testing::dataset_of(lengths), {}, {}, played_on(false));
  EXPECT_FALSE(schedule.all_shapes);
  const BatchShape shortest{1, 4, 3}, longest{1, 200, 199};
  ASSERT_FALSE(schedule.steps.empty());
  EXPECT_EQ(schedule.steps.front(), (StepShape{shortest, shortest, longest, shortest}));
  EXPECT_EQ(schedule.extent, (Extent{200, 0}));
}

// Between borders fewer queries of a longer row have their scores at a time.
TEST(Coverage, OfScoresThatAreThereAtATimeIsNotALongerRow) {
  const KernelTraits traits{0, 32};
  const BatchShape longer{1, 65'600, 65'599}, shorter{1, 65'500, 65'499};
  ASSERT_LT(arch::queries_at_once(32, 65'600, 65'600) * 65'600, arch::queries_at_once(32, 65'500, 65'500) * 65'500);
  Frontier by_scores(traits), plain;
  for (Frontier* frontier : {&by_scores, &plain}) frontier->add(longer);
  EXPECT_FALSE(by_scores.covers(shorter));
  EXPECT_TRUE(plain.covers(shorter));
}

TEST(Coverage, OfAStepKeepsItsFirstAndItsLast) {
  const BatchShape small{1, 4, 3}, other{1, 5, 4}, large{1, 200, 199};
  const auto fewer = [](const StepShape& step) { return reduced(step, {}, Frontier::Within::kRows); };
  EXPECT_EQ(fewer({large, small, other, small, small}), (StepShape{large, other, small}));
  EXPECT_EQ(fewer({small, small, small, small, large}), (StepShape{small, small, large}));
  EXPECT_EQ(fewer({small, other, large}), (StepShape{small, other, large}));
  EXPECT_EQ(fewer({}), StepShape{});
}

}  // namespace
}  // namespace fathom::schedule
