// What no GPU has run yet belongs to a search: where nothing else fits, where it is clearly faster, and never in
// silence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "plan/advice/memory_keys.h"
#include "plan/advice/remedies.h"
#include "plan/advice/search.h"
#include "plan/estimate/analytic.h"
#include "plan/host.h"
#include "tests/plan/full_batches.h"
#include "tests/plan/llama_8b.h"

namespace fathom::plan::search_turns_test {
namespace {

using config::RunConfig;
using ::testing::Contains;
using testing::full_batches;
using ::testing::IsEmpty;
using testing::llama_8b;
using ::testing::SizeIs;

class SearchTurns : public ::testing::Test {
 protected:
  SearchTurns() {
    run_.max_length = 1024;
    target_.device = config::Device::kCuda;
    target_.compute_capability = "8.9";
    gpu_.memory_bytes_per_second = 1008e9;
    gpu_.fp32_flops = 82.6e12;
    gpu_.tf32_flops = 82.6e12;
    gpu_.bf16_flops = 165.2e12;
    gpu_.host_link_bytes_per_second = 32e9;
  }

  // Of a formula that is right to the byte.
  Question question(int64_t capacity) {
    target_.capacity_bytes = capacity;
    Question question{arch::resolve(run_, architecture_), target_, full_batches, {}, {}, {}, {}};
    question.prove = [this](const RunConfig& tried) {
      const arch::Run run = arch::resolve(tried, architecture_);
      const int64_t need = estimate_analytic(run, target_of(target_, run), full_batches(run)).peak;
      return Proof{need, need <= target_.capacity_bytes, false};
    };
    question.throughput = [this](const arch::Run& tried) { return throughput_of(gpu_, tried); };
    return question;
  }

  const arch::Architecture architecture_ = llama_8b();
  RunConfig run_;
  Target target_;
  config::GpuSpec gpu_;
};

// Six bytes a parameter are 45 GiB; with one gradient at a time, and the states with the host, two and a little.
TEST_F(SearchTurns, FullTrainingOfEightBillionFitsADesktop) {
  const Advice advice = least_time_that_fits(question(21 * kGiB), {"method"});
  ASSERT_TRUE(advice.best);
  EXPECT_EQ(advice.best->turn, Turn::kUntried);
  EXPECT_THAT(untried_on_gpus(advice.best->run), SizeIs(2));
  EXPECT_EQ(advice.best->change, UpdateChange::kUnclipped);
  EXPECT_EQ(advice.best->run.max_grad_norm, 0);
  EXPECT_GT(advice.best->host_bytes, 10 * kGiB);
  ASSERT_TRUE(advice.smallest_tried && advice.smallest_tried->proof) << "what GPUs have run does not fit, by proof";
  EXPECT_FALSE(advice.smallest_tried->proof->fits);
  EXPECT_THAT(untried_on_gpus(advice.smallest_tried->run), IsEmpty());
  EXPECT_GT(advice.smallest_tried->proof->need, 40 * kGiB);
  EXPECT_FALSE(advice.smallest);
}

TEST_F(SearchTurns, NothingFitsIsSaidOfAllTurns) {
  const Advice advice = least_time_that_fits(question(12 * kGiB), {"method"});
  EXPECT_FALSE(advice.best);
  ASSERT_TRUE(advice.smallest && advice.smallest->proof);
  EXPECT_FALSE(advice.smallest->proof->fits);
  EXPECT_LT(advice.smallest->proof->need, 21 * kGiB);
  EXPECT_THAT(untried_on_gpus(advice.smallest->run), SizeIs(2));
}

TEST_F(SearchTurns, WhatGpusHaveRunIsKeptWhereItFits) {
  const Advice advice = least_time_that_fits(question(52 * kGiB), {"method"});
  ASSERT_TRUE(advice.best);
  EXPECT_EQ(advice.best->turn, Turn::kFirst);
  EXPECT_EQ(advice.best->change, UpdateChange::kRounded);
  if (advice.untried) {
    EXPECT_LE(advice.untried->change, advice.best->change);
    EXPECT_LT(*advice.untried->seconds, *advice.best->seconds);
    EXPECT_GT(*advice.untried->seconds, kClearlyFaster * *advice.best->seconds);
  }
}

// Of a base that leaves room for a row at a time alone each pass reads weights anew; a host's link that costs nothing
// makes room for all.
TEST_F(SearchTurns, ComesInWhereItIsClearlyFaster) {
  run_.method = config::Method::kLora;
  run_.per_device_train_batch_size = 32;
  run_.max_length = 64;
  gpu_.host_link_bytes_per_second = 1e15;
  const std::set<std::string> keep = {"method", "checkpointing"};
  int64_t clearly = 0, kept = 0;
  for (const int64_t gib : {5, 6, 7, 8, 9, 10, 12, 15, 18}) {
    Question whole = question(gib * kGiB);
    const Advice advice = least_time_that_fits(whole, keep);
    const Advice tried = least_time_that_fits(whole, {"method", "checkpointing", "updates", "host"});
    if (!advice.best || !tried.best) continue;
    if (advice.best->turn == Turn::kUntried) {
      ++clearly;
      EXPECT_LE(*advice.best->seconds, kClearlyFaster * *tried.best->seconds);
      EXPECT_LE(advice.best->change, tried.best->change);
    } else {
      ++kept;
      EXPECT_EQ(advice.best->run, tried.best->run);
    }
  }
  EXPECT_GT(clearly, 0);
  EXPECT_GT(kept, 0);
}

TEST_F(SearchTurns, TheHostsMemoryIsABoundToo) {
  Question small = question(21 * kGiB);
  small.host_bytes = 8 * kGiB;
  EXPECT_FALSE(least_time_that_fits(small, {"method"}).best) << "states in 8 bits take 15 GiB";
  small.host_bytes = 16 * kGiB;
  const Advice advice = least_time_that_fits(small, {"method"});
  ASSERT_TRUE(advice.best);
  EXPECT_LE(advice.best->host_bytes, 16 * kGiB);
}

TEST_F(SearchTurns, KeepsWhatItIsToldTo) {
  const Advice advice = least_time_that_fits(question(21 * kGiB), {"method", "host"});
  EXPECT_FALSE(advice.best);
  EXPECT_THAT(advice.smallest->techniques, Contains("updates in the backward pass"));
  EXPECT_FALSE(advice.smallest->run.offload_optimizer);
}

// Near the limit each byte of room counts more than time.
TEST_F(SearchTurns, TheMostRoomIsThatOfTheSmallest) {
  Question whole = question(24 * kGiB);
  const Advice roomy = most_room_that_fits(whole, {"method"});
  const Advice fast = least_time_that_fits(whole, {"method"});
  ASSERT_TRUE(roomy.best && fast.best);
  EXPECT_TRUE(roomy.by_room);
  EXPECT_TRUE(roomy.best->proof->fits);
  EXPECT_LE(roomy.best->proof->need, fast.best->proof->need);
  EXPECT_NE(roomy.best->change, UpdateChange::kAnother);
  // Where the last turn has nothing, and of all turns.
  RunConfig chunked = run_;
  chunked.loss_chunk_size = 64;
  whole.run = arch::resolve(chunked, architecture_);
  const Advice first = most_room_that_fits(whole, {"method", "loss"});
  ASSERT_TRUE(first.best);
  EXPECT_NE(first.best->turn, Turn::kLast);
  const Advice nothing = most_room_that_fits(question(12 * kGiB), {"method"});
  EXPECT_FALSE(nothing.best);
  ASSERT_TRUE(nothing.smallest && nothing.smallest->proof);
  EXPECT_FALSE(nothing.smallest->proof->fits);
}

}  // namespace
}  // namespace fathom::plan::search_turns_test
