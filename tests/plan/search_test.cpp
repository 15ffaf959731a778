// The search: that memory grows with what it is pruned by, that it finds what trying everything finds, and that dry
// runs have the last word.
#include "plan/advice/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include "arch/attention_by_scores.h"
#include "arch/precision.h"
#include "base/bytes.h"
#include "base/split_mix.h"
#include "config/keys.h"
#include "config/precision.h"
#include "footprint/moment_storage.h"
#include "plan/advice/remedies.h"
#include "plan/advice/techniques.h"
#include "plan/estimate/analytic.h"
#include "schedule/inputs.h"
#include "tests/plan/full_batches.h"
#include "tests/plan/llama_8b.h"
#include "tests/plan/memory_matrix.h"

namespace fathom::plan::search_test {
namespace {

using config::RunConfig;
using ::testing::Contains;
using testing::full_batches;
using testing::llama_8b;

Target target_with(config::Device device, int64_t capacity) {
  Target target;
  target.device = device;
  target.capacity_bytes = capacity;
  if (device == config::Device::kCuda) target.compute_capability = "9.0";
  return target;
}

// Of attention by scores whole stretches of queries are there at a time, and a longer row may have smaller ones: what
// such a model takes grows with steps back, which a search for the largest value does not see.
std::vector<testing::MatrixRun> of_fused_attention(std::vector<testing::MatrixRun> runs) {
  std::erase_if(
      runs, [](const testing::MatrixRun& run) { return arch::attends_by_scores(run.architecture, /*training=*/true); });
  return runs;
}

int64_t formula(const arch::Architecture& architecture, const RunConfig& run, const Target& target) {
  const arch::Run resolved = arch::resolve(run, architecture);
  return estimate_analytic(resolved, target_of(target, resolved), full_batches(resolved)).peak;
}

// A question whose truth is `true_need` of the formula.
Question question_about(const arch::Architecture& architecture, const RunConfig& run, const Target& target,
                        const std::function<int64_t(int64_t formula)>& true_need) {
  Question question{arch::resolve(run, architecture), target, full_batches, {}, {}, {}, {}};
  question.prove = [=, &architecture](const RunConfig& tried) {
    const int64_t need = true_need(formula(architecture, tried, target));
    return Proof{need, need <= target.capacity_bytes, false};
  };
  return question;
}

int64_t as_it_is(int64_t formula) { return formula; }

// Rows that are longer than the window go through other operators than those that it shows whole, and the
// change may take less (as the dry run says to the byte): the two sides are not compared.
bool window_begins_to_hide(const arch::Architecture& architecture, Vary vary, int64_t value, int64_t larger) {
  return vary == Vary::kLength && value <= architecture.sliding_window() && architecture.sliding_window() < larger;
}

// adamw_8bit begins to quantize the moments of an adapter's matrix where the rank makes it large enough, and takes less
// then: the two sides are not compared.
bool moments_begin_to_be_quantized(const arch::Architecture& architecture, const RunConfig& run, Vary vary,
                                   int64_t value, int64_t larger) {
  if (vary != Vary::kRank || run.optim != config::Optimizer::kAdamW8bit) return false;
  const std::vector<arch::ParameterSpec> specs = arch::parameter_specs(architecture);
  return std::any_of(specs.begin(), specs.end(), [&](const arch::ParameterSpec& spec) {
    return std::any_of(spec.shape.begin(), spec.shape.end(), [&](int64_t side) {
      return value * side < footprint::kFewestIn8bit && footprint::kFewestIn8bit <= larger * side;
    });
  });
}

// Of every run of the memory matrix: widths, heads, ties, methods, precisions, attention and evaluation.
TEST(Search, MemoryGrowsWithBatchLengthAndRank) {
  SplitMix64 random(20260601);
  int64_t compared = 0;
  for (const testing::MatrixRun& each : of_fused_attention(testing::memory_matrix())) {
    for (const config::Device device : {config::Device::kCpu, config::Device::kCuda}) {
      const Target target = target_with(device, 0);
      for (const Vary vary : {Vary::kBatch, Vary::kLength, Vary::kRank}) {
        if (vary == Vary::kRank && each.config.method != config::Method::kLora) continue;
        for (int i = 0; i < 4; ++i) {
          const auto value = static_cast<int64_t>(1 + random.below(i < 2 ? 40 : 3000));
          const int64_t larger = value + 1 + static_cast<int64_t>(random.below(i % 2 == 0 ? 1 : 100));
          if (window_begins_to_hide(each.architecture, vary, value, larger)) continue;
          if (moments_begin_to_be_quantized(each.architecture, each.config, vary, value, larger)) continue;
          const RunConfig lesser = with_value(vary, each.config, value);
          const int64_t small = formula(each.architecture, lesser, target);
          const int64_t large = formula(each.architecture, with_value(vary, each.config, larger), target);
          EXPECT_LE(small, large) << each.name << " " << key_of(vary) << " " << value << " against " << larger;
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 3000);
}

TEST(Search, LargestValueIsTheOneThatTryingAllFinds) {
  SplitMix64 random(7);
  const std::vector<testing::MatrixRun> runs = of_fused_attention(testing::sample_of_matrix(3, 40));
  for (const testing::MatrixRun& each : runs) {
    const Target unbounded = target_with(config::Device::kCpu, 0);
    for (const Vary vary : {Vary::kBatch, Vary::kLength}) {
      const auto at = [&](int64_t value) {
        return formula(each.architecture, with_value(vary, each.config, value), unbounded);
      };
      const int64_t limit = 300;
      const auto chosen = static_cast<int64_t>(1 + random.below(limit));
      const double wrong_by = 0.9 + 0.2 * static_cast<double>(random.below(1000)) / 1000;
      const auto truth = [&](int64_t bytes) {
        return static_cast<int64_t>(wrong_by * static_cast<double>(bytes)) + 999;
      };
      const Target target = target_with(config::Device::kCpu, truth(at(chosen)));
      const Largest found =
          largest_that_fits(vary, {1, limit}, question_about(each.architecture, each.config, target, truth));
      int64_t expected = chosen;
      while (expected < limit && truth(at(expected + 1)) <= target.capacity_bytes) ++expected;
      ASSERT_TRUE(found.fits) << each.name;
      EXPECT_EQ(value_of(vary, found.fits->run), expected) << each.name << " " << key_of(vary);
      EXPECT_TRUE(found.fits->proof->fits);
      if (expected < limit) {
        ASSERT_TRUE(found.exceeds) << each.name;
        EXPECT_EQ(value_of(vary, found.exceeds->run), expected + 1);
        EXPECT_FALSE(found.exceeds->proof->fits);
      } else {
        EXPECT_FALSE(found.exceeds && value_of(vary, found.exceeds->run) <= limit);
      }
      EXPECT_LE(found.dry_runs, 16) << each.name << " " << key_of(vary);
    }
  }
}

TEST(Search, ValuesAtBothEnds) {
  const arch::Architecture architecture = llama_8b();
  RunConfig run;
  const Target none = target_with(config::Device::kCpu, kGiB);
  const Largest nothing = largest_that_fits(Vary::kBatch, {1, 1000}, question_about(architecture, run, none, as_it_is));
  EXPECT_FALSE(nothing.fits);
  ASSERT_TRUE(nothing.exceeds);
  EXPECT_EQ(nothing.exceeds->run.per_device_train_batch_size, 1);
  const Target endless = target_with(config::Device::kCpu, kGiB << 20);
  const Largest all = largest_that_fits(Vary::kLength, {3, 512}, question_about(architecture, run, endless, as_it_is));
  ASSERT_TRUE(all.fits);
  EXPECT_EQ(all.fits->run.max_length, 512);
  EXPECT_FALSE(all.exceeds);
  EXPECT_EQ(all.dry_runs, 1);
}

// Every combination, with what it takes by the formula; by turn.
std::map<Turn, std::vector<Combination>> all_combinations(const Question& question) {
  std::map<Turn, std::vector<Combination>> all = {{Turn::kFirst, {}}, {Turn::kUntried, {}}, {Turn::kLast, {}}};
  const std::vector<Technique> rows = techniques(question.run, question.target);
  std::vector<std::tuple<RunConfig, size_t, Turn>> open = {{question.run.config, 0, Turn::kFirst}};
  while (!open.empty()) {
    const auto [run, from, turn] = open.back();
    open.pop_back();
    if (from == rows.size()) {
      const arch::Run resolved = arch::resolve(run, question.run.architecture);
      Combination each;
      each.run = run;
      each.formula = formula(question.run.architecture, run, question.target);
      each.arithmetic = estimate_arithmetic(
          resolved, schedule::StepShape(run.gradient_accumulation_steps,
                                        schedule::whole_batch(run.per_device_train_batch_size,
                                                              question.run.config.max_length, run.packing)));
      each.seconds = expected_time(each.arithmetic, *question.throughput(resolved)).seconds();
      each.change = update_change(question.run.config, run);
      all[turn].push_back(each);
      continue;
    }
    size_t next = from;
    while (next < rows.size() && rows[next].group == rows[from].group) ++next;
    for (size_t row = from; row < next; ++row) {
      if (const auto changed = rows[row].apply(run)) open.emplace_back(*changed, next, std::max(turn, rows[row].turn));
    }
  }
  return all;
}

// The rule of least_time_that_fits, told anew.
std::optional<Combination> best_of_all(const std::map<Turn, std::vector<Combination>>& all, int64_t capacity,
                                       const std::function<int64_t(int64_t formula)>& true_need) {
  const auto best_of = [&](Turn turn, UpdateChange least) -> std::optional<Combination> {
    std::optional<Combination> best;
    const auto order = [=](const Combination& of) { return std::pair(std::max(of.change, least), *of.seconds); };
    for (const Combination& each : all.at(turn)) {
      if (true_need(each.formula) <= capacity && (!best || order(each) < order(*best))) best = each;
    }
    return best;
  };
  std::optional<Combination> answer = best_of(Turn::kFirst, UpdateChange::kNone);
  for (const Turn turn : {Turn::kUntried, Turn::kLast}) {
    const auto other = best_of(turn, UpdateChange::kUnclipped);
    if (!other || (answer && answer->change != UpdateChange::kAnother)) continue;
    if (!answer || other->change != UpdateChange::kAnother) answer = other;
  }
  return answer;
}

std::optional<Throughput> throughput_of_example(const arch::Run& run) {
  Throughput throughput;
  const bool narrow = run.config.bf16 || run.config.dtype == DType::kBF16;
  throughput.matrix_flops_per_second = narrow ? 600e12 : 60e12;
  throughput.attention_flops_per_second = throughput.matrix_flops_per_second / 2;
  throughput.bytes_per_second = 3e12;
  return throughput;
}

Question timed_question(const arch::Architecture& architecture, const RunConfig& run, int64_t capacity,
                        const std::function<int64_t(int64_t formula)>& true_need) {
  Question question = question_about(architecture, run, target_with(config::Device::kCpu, capacity), true_need);
  question.throughput = throughput_of_example;
  return question;
}

// What the formula lacks shows when a run is played: the fastest by formula is not the answer then.
TEST(Search, CombinationsAreOrderedByTheTimeOfWhatWasPlayed) {
  const arch::Architecture architecture = llama_8b();
  RunConfig configured;
  configured.max_length = 512;
  const Target endless = target_with(config::Device::kCpu, kGiB << 20);
  Question question = question_about(architecture, configured, endless, as_it_is);
  question.throughput = throughput_of_example;
  const RunConfig by_formula = least_time_that_fits(question).best->run;
  int64_t played = 0;
  question.prove = [&](const RunConfig& run) {
    ++played;
    Proof proof{1, true, false};
    const arch::Run resolved = arch::resolve(run, architecture);
    proof.arithmetic = estimate_arithmetic(resolved, longest_step(resolved, full_batches(resolved).steps));
    if (run.method == by_formula.method) proof.arithmetic->forward.bytes_moved *= 1'000;
    return proof;
  };
  const Advice advice = least_time_that_fits(question);
  ASSERT_TRUE(advice.best);
  EXPECT_NE(advice.best->run.method, by_formula.method);
  ASSERT_TRUE(advice.best->proof);
  EXPECT_GT(played, 1);
  ASSERT_GT(advice.fitting.size(), 1U);
  for (size_t row = 0; row < advice.fitting.size(); ++row) {
    EXPECT_TRUE(advice.fitting[row].proof) << "rows beside each other are of one kind";
    if (row > 0) {
      EXPECT_LE(*advice.fitting[row - 1].seconds, *advice.fitting[row].seconds);
    }
  }
}

// Of the matrix without Qwen3.5, which is its end. Of all of it, formulas that are off by half hide the fastest
// combination of run 173, of a Llama.
constexpr size_t kSearched = 260;

TEST(Search, CombinationIsTheFastestThatTryingAllFinds) {
  int64_t answers = 0;
  for (const testing::MatrixRun& each : of_fused_attention(testing::sample_of_matrix(11, 7, kSearched))) {
    RunConfig run = each.config;
    run.per_device_train_batch_size = 6;
    run.gradient_accumulation_steps = 4;
    const auto all = all_combinations(timed_question(each.architecture, run, 0, as_it_is));
    const int64_t as_configured = formula(each.architecture, run, target_with(config::Device::kCpu, 0));
    for (const double share : {0.4, 0.7, 1.2}) {
      const auto capacity = static_cast<int64_t>(share * static_cast<double>(as_configured));
      for (const double wrong_by : {0.98, 1.0, 1.03}) {
        const auto truth = [=](int64_t bytes) { return static_cast<int64_t>(wrong_by * static_cast<double>(bytes)); };
        const std::optional<Combination> expected = best_of_all(all, capacity, truth);
        const Advice advice = least_time_that_fits(timed_question(each.architecture, run, capacity, truth));
        EXPECT_GE(advice.combinations, std::ssize(all.at(Turn::kFirst)));
        EXPECT_EQ(advice.best.has_value(), expected.has_value()) << each.name << " " << share << " " << wrong_by;
        if (!advice.best || !expected) continue;
        ++answers;
        EXPECT_DOUBLE_EQ(*advice.best->seconds, *expected->seconds) << each.name << " " << share << " " << wrong_by;
        EXPECT_EQ(advice.best->change, expected->change) << each.name << " " << share << " " << wrong_by;
        EXPECT_TRUE(advice.best->proof->fits);
        if (advice.next) {
          EXPECT_FALSE(advice.next->proof->fits);
          EXPECT_LE(std::pair(advice.next->change, *advice.next->seconds),
                    std::pair(advice.best->change, *advice.best->seconds));
        }
      }
    }
  }
  EXPECT_GT(answers, 40);
}

// The formula is wrong by half, as scratch that it does not know makes it: each dry run says by how much.
TEST(Search, FormulasThatAreFarOffDoNotHideWhatFits) {
  int64_t answers = 0, refusals = 0;
  for (const testing::MatrixRun& each : of_fused_attention(testing::sample_of_matrix(11, 7, kSearched))) {
    RunConfig run = each.config;
    run.per_device_train_batch_size = 12;
    run.gradient_accumulation_steps = 10;
    const auto all = all_combinations(timed_question(each.architecture, run, 0, as_it_is));
    const int64_t as_configured = formula(each.architecture, run, target_with(config::Device::kCpu, 0));
    for (const double share : {0.1, 0.5, 0.8, 1.3}) {
      const auto capacity = static_cast<int64_t>(share * static_cast<double>(as_configured));
      for (const double wrong_by : {0.7, 1.5}) {
        const auto truth = [=](int64_t bytes) { return static_cast<int64_t>(wrong_by * static_cast<double>(bytes)); };
        const std::optional<Combination> expected = best_of_all(all, capacity, truth);
        const Advice advice = least_time_that_fits(timed_question(each.architecture, run, capacity, truth));
        const std::string what = each.name + " " + std::to_string(share) + " " + std::to_string(wrong_by);
        EXPECT_TRUE(advice.settled) << what;
        ASSERT_EQ(advice.best.has_value(), expected.has_value()) << what;
        (expected ? answers : refusals) += 1;
        if (expected) {
          EXPECT_DOUBLE_EQ(*advice.best->seconds, *expected->seconds) << what;
        } else {
          ASSERT_TRUE(advice.smallest && advice.smallest->proof) << what;
          EXPECT_FALSE(advice.smallest->proof->fits) << what;
        }
      }
    }
  }
  EXPECT_GT(answers, 20);
  EXPECT_GT(refusals, 2);
}

// Dry runs that follow no rule use up the search: what it then says is proved all the same.
TEST(Search, SaysSoWhereTheDryRunsAreUsedUp) {
  const arch::Architecture architecture = llama_8b();
  RunConfig run;
  run.max_length = 2048;
  run.per_device_train_batch_size = 180;
  const Target target = target_with(config::Device::kCuda, 80 * kGiB);
  Question question = question_about(architecture, run, target, as_it_is);
  question.throughput = throughput_of_example;
  int64_t tried = 0;
  std::optional<RunConfig> only;  // that fits
  question.prove = [&](const RunConfig& candidate) {
    ++tried;
    const bool fits = only && candidate == *only;
    return Proof{formula(architecture, candidate, target) + (fits ? 0 : target.capacity_bytes), fits, false};
  };
  const Advice nothing = least_time_that_fits(question);
  EXPECT_FALSE(nothing.best);
  ASSERT_TRUE(nothing.smallest && nothing.smallest->proof);
  EXPECT_FALSE(nothing.smallest->proof->fits);
  EXPECT_EQ(nothing.dry_runs, tried);
  EXPECT_LE(tried, 41 * 3) << "of each turn";

  only = nothing.smallest->run;
  question.prove = [&](const RunConfig& candidate) {
    const bool fits = candidate == *only;
    return Proof{fits ? 1 : formula(architecture, candidate, target), fits, false};
  };
  const Advice smallest = least_time_that_fits(question);
  ASSERT_TRUE(smallest.best);
  EXPECT_FALSE(smallest.settled);
  EXPECT_TRUE(smallest.best->run == *only && smallest.best->proof->fits);
  EXPECT_LE(smallest.dry_runs, 41 * 3);
}

// Of the largest run that a config can name: none of its splits accumulates more than a config may.
TEST(Search, SplitsOfAHugeBatchStayWithinWhatAConfigTakes) {
  const arch::Architecture architecture = llama_8b();
  RunConfig run;
  run.per_device_train_batch_size = 1'000'000;
  run.gradient_accumulation_steps = config::kMostAccumulated;
  int64_t batches = 0;
  for (const Technique& row : techniques(arch::resolve(run, architecture), target_with(config::Device::kCpu, 0))) {
    if (row.group != "batch") continue;
    ++batches;
    const RunConfig split = *row.apply(run);
    EXPECT_LE(split.gradient_accumulation_steps, config::kMostAccumulated) << row.name;
    EXPECT_EQ(split.per_device_train_batch_size * split.gradient_accumulation_steps, 100'000'000'000);
  }
  EXPECT_GT(batches, 50);
}

TEST(Search, KeepsWhatItIsToldTo) {
  const arch::Architecture architecture = llama_8b();
  RunConfig run;
  run.max_length = 2048;
  Question question = question_about(architecture, run, target_with(config::Device::kCuda, 80 * kGiB), as_it_is);
  question.throughput = throughput_of_example;
  const Advice free = least_time_that_fits(question);
  ASSERT_TRUE(free.best);
  EXPECT_EQ(free.best->run.method, config::Method::kLora);
  const Advice kept = least_time_that_fits(question, {"method"});
  ASSERT_TRUE(kept.best);
  EXPECT_EQ(kept.best->run.method, config::Method::kFull);
  EXPECT_EQ(kept.best->run.dtype, DType::kBF16) << "8B parameters take 12 bytes each and more otherwise";
  EXPECT_EQ(kept.best->run.master_weights, config::MasterWeights::kStochastic);
  EXPECT_GE(*kept.best->seconds, *free.best->seconds);
  const Advice nothing = least_time_that_fits(question, {"method", "precision", "optimizer", "updates", "host"});
  EXPECT_FALSE(nothing.best);
  ASSERT_TRUE(nothing.smallest);
  EXPECT_GT(nothing.smallest->formula, 80 * kGiB);
  EXPECT_FALSE(nothing.smallest->proof->fits);
  EXPECT_THAT(nothing.smallest->techniques, Contains("checkpointing"));
  EXPECT_THAT(nothing.smallest->techniques, Contains("flash attention")) << "math takes as much or more";
}

// An update is not changed for a little time: only where nothing else fits, and another one only where its states in
// fewer bits do not do.
TEST(Search, ChangesTheOptimizerOnlyWhereNothingElseFits) {
  const arch::Architecture architecture = llama_8b();
  RunConfig run;
  run.max_length = 2048;
  const auto best_within = [&](int64_t gib, bool fp16) {
    run.fp16 = fp16;
    Question question = question_about(architecture, run, target_with(config::Device::kCuda, gib * kGiB), as_it_is);
    question.throughput = throughput_of_example;
    const Advice advice = least_time_that_fits(question, {"method", "updates", "host"});
    return advice.best ? std::optional(std::pair(advice.best->run.optim, advice.best->change)) : std::nullopt;
  };
  EXPECT_EQ(best_within(80, false), std::pair(config::Optimizer::kAdamW, UpdateChange::kNone));
  EXPECT_EQ(best_within(52, false), std::pair(config::Optimizer::kAdamW8bit, UpdateChange::kRounded));
  EXPECT_EQ(best_within(40, false), std::nullopt) << "6 bytes a parameter are the least that keep every update";
  // Without BF16 weights are trained in FP32, and 10 bytes a parameter are 75 GiB.
  EXPECT_EQ(best_within(80, true)->second, UpdateChange::kRounded);
  EXPECT_EQ(best_within(70, true)->second, UpdateChange::kAnother);
}

// Whatever combination of rows, of whatever run.
TEST(Search, NothingTrainsWeightsThatAreRoundedToNearest) {
  int64_t seen = 0;
  std::vector<arch::Run> runs;
  for (const testing::MatrixRun& each : testing::sample_of_matrix(5, 20)) {
    runs.push_back(arch::resolve(each.config, each.architecture));
  }
  RunConfig rounded;
  rounded.dtype = DType::kBF16;
  ASSERT_TRUE(config::rounds_weights_to_nearest(rounded));
  runs.push_back(arch::resolve(rounded, llama_8b()));
  for (const arch::Run& run : runs) {
    std::vector<std::pair<RunConfig, size_t>> open = {{run.config, 0}};
    const std::vector<Technique> rows = techniques(run, target_with(config::Device::kCpu, 0));
    while (!open.empty()) {
      const auto [partial, from] = open.back();
      open.pop_back();
      if (from == rows.size() || rows[from].group == "checkpointing") {
        EXPECT_FALSE(config::rounds_weights_to_nearest(partial));
        ++seen;
        continue;
      }
      size_t next = from;
      while (rows[next].group == rows[from].group) ++next;
      for (size_t row = from; row < next; ++row) {
        if (const auto changed = rows[row].apply(partial)) open.emplace_back(*changed, next);
      }
    }
  }
  EXPECT_GT(seen, 300);
}

TEST(Search, KeepsFromSixteenBitsWhereTheyAreSlow) {
  const arch::Architecture architecture = llama_8b();
  RunConfig run;
  run.max_length = 2048;
  Question question = question_about(architecture, run, target_with(config::Device::kCpu, 400 * kGiB), as_it_is);
  question.slowdown = [](const arch::Run& each) {
    return each.precision.computed == DType::kF32 ? Slowdown{} : Slowdown{.matrix = 1.1, .attention = 16};
  };
  const Advice advice = least_time_that_fits(question, {"method"});
  ASSERT_TRUE(advice.best);
  EXPECT_EQ(arch::resolve(advice.best->run, architecture).precision.computed, DType::kF32);
}

TEST(Search, FiveHundredCombinationsOfAnEightBillionShapeInSeconds) {
  const arch::Architecture architecture = llama_8b();
  RunConfig run;
  run.max_length = 2048;
  run.per_device_train_batch_size = 180;  // of 18 divisors
  Question question = question_about(architecture, run, target_with(config::Device::kCuda, 80 * kGiB), as_it_is);
  question.throughput = throughput_of_example;
  const auto start = std::chrono::steady_clock::now();
  const Advice advice = least_time_that_fits(question);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_GE(advice.combinations, 500);
  EXPECT_LT(advice.reckoned, advice.combinations / 2) << "monotonicity decides the rest";
  ASSERT_TRUE(advice.best);
  ASSERT_TRUE(advice.next) << "the next larger micro-batch takes no more time, and must be proved not to fit";
  EXPECT_GT(advice.next->run.per_device_train_batch_size, advice.best->run.per_device_train_batch_size);
  EXPECT_FALSE(advice.next->proof->fits);
  EXPECT_LT(seconds, 15);
  RecordProperty("combinations", static_cast<int>(advice.combinations));
  RecordProperty("reckoned", static_cast<int>(advice.reckoned));
  RecordProperty("milliseconds", static_cast<int>(seconds * 1000));
  std::printf("%ld combinations, %ld reckoned, %.0f ms\n", advice.combinations, advice.reckoned, seconds * 1000);
}

}  // namespace
}  // namespace fathom::plan::search_test
