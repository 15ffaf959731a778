// What memory.json says of a run, judged; and failing runs made small.
#include "tests/random/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/json_value.h"
#include "tests/random/minimise.h"

namespace fathom::random {
namespace {

using ::testing::HasSubstr;

Json figure(int64_t planned, int64_t measured) { return {{"dry_run", planned}, {"measured", measured}}; }

Json allocator(int64_t lowest, int64_t highest, int64_t measured, bool bound) {
  return {{"dry_run", lowest}, {"range", {lowest, highest}}, {"measured", measured}, {"bound", bound}};
}

Json memory(int64_t measured_peak,
            const Json& reserved = {{"dry_run", nullptr}, {"range", nullptr}, {"measured", nullptr}}) {
  const Json none = {{"dry_run", nullptr}, {"measured", nullptr}};
  return {{"peak", figure(1000, measured_peak)},
          {"components", {{"weights", figure(700, 700)}}},
          {"maximum", {{"weights", figure(700, 700)}}},
          {"phases",
           {{"forward", {{"peak", figure(900, 900)}, {"end", {{"weights", figure(700, 700)}}}}},
            {"save", {{"peak", {{"dry_run", 5}, {"measured", nullptr}}}, {"end", Json::object()}}}}},
          {"kernel_scratch", figure(50, 40)},
          {"peak_with_scratch", none},
          {"resident", figure(900, 800)},
          {"allocated", {{"dry_run", nullptr}, {"range", nullptr}, {"measured", nullptr}}},
          {"reserved", reserved}};
}

TEST(Judge, IsExactWhereEveryFigureIs) {
  EXPECT_EQ(judge_memory(memory(1000), false).verdict, Verdict::kExact);
  EXPECT_EQ(judge_memory(memory(1000, allocator(2 << 20, 2 << 20, 2 << 20, false)), false).verdict, Verdict::kExact);
}

TEST(Judge, NamesWhatDiffers) {
  const Judgement above = judge_memory(memory(1001), false), below = judge_memory(memory(999), false);
  EXPECT_EQ(above.verdict, Verdict::kWrong);
  EXPECT_THAT(above.reason, HasSubstr("peak +1"));
  EXPECT_EQ(below.verdict, Verdict::kWrong);
  EXPECT_THAT(below.reason, HasSubstr("peak -1"));
}

TEST(Judge, KnowsRunsThatEndedBelowTheirPlan) {
  EXPECT_EQ(judge_memory(memory(999), true).verdict, Verdict::kEndedEarly);
  EXPECT_EQ(judge_memory(memory(1001), true).verdict, Verdict::kWrong);
  // At a smaller peak, at another instant, there may be more of one component; at the planned one there may not.
  const auto with_more_at_the_peak = [](int64_t peak) {
    Json more = memory(peak);
    more["components"]["weights"] = figure(700, 710);
    return judge_memory(more, true).verdict;
  };
  EXPECT_EQ(with_more_at_the_peak(999), Verdict::kEndedEarly);
  EXPECT_EQ(with_more_at_the_peak(1000), Verdict::kWrong);
}

TEST(Judge, ScratchAndResidentMemoryStayBelowTheirBounds) {
  Json more = memory(1000);
  more["kernel_scratch"] = figure(50, 51);
  EXPECT_THAT(judge_memory(more, false).reason, HasSubstr("kernel scratch above its bound +1"));
  more = memory(1000);
  more["resident"] = figure(900, 902);
  EXPECT_THAT(judge_memory(more, false).reason, HasSubstr("resident memory above its bound +2"));
}

TEST(Judge, BoundsAreNeverTooLowAndNearEnough) {
  const int64_t gib = int64_t{1} << 30, mib = int64_t{1} << 20;
  const auto judge = [&](int64_t lowest, int64_t highest, int64_t measured, bool bound) {
    return judge_memory(memory(1000, allocator(lowest, highest, measured, bound)), false);
  };
  EXPECT_EQ(judge(gib, gib + 20 * mib, gib, true).verdict, Verdict::kBounded);
  EXPECT_EQ(judge(gib, gib + 20 * mib, gib, true).above_bytes, 20 * mib);
  EXPECT_EQ(judge(gib, gib + 20 * mib, gib - 2 * mib, true).verdict, Verdict::kBounded);
  EXPECT_EQ(judge(gib, gib + 20 * mib, gib - 20 * mib, true).verdict, Verdict::kWrong);
  EXPECT_EQ(judge(gib, gib + 20 * mib, gib + 21 * mib, true).verdict, Verdict::kWrong);
  EXPECT_EQ(judge(gib, gib, gib - 2 * mib, false).verdict, Verdict::kWrong);
  EXPECT_EQ(judge(10 * gib, 10 * gib + 200 * mib, 10 * gib, true).verdict, Verdict::kBounded);
}

TEST(Minimise, LeavesWhatFailsAlone) {
  const auto fails = [](const RandomRun& run) {
    const bool is_long =
        std::any_of(run.train.begin(), run.train.end(), [](const Sample& sample) { return sample.length >= 20; });
    return is_long && run.value("max_grad_norm") == "0" && run.model.value("num_hidden_layers", 0) >= 2;
  };
  int tried = 0;
  for (uint64_t number = 0; tried < 3; ++number) {
    RandomRun run = draw(1, number, {});
    run.keys["max_grad_norm"] = "0";
    if (!fails(run)) continue;
    ++tried;
    const RandomRun smallest = minimise(run, fails, 1000);
    EXPECT_TRUE(fails(smallest));
    EXPECT_EQ(smallest.train.size(), 1);
    EXPECT_LT(smallest.train[0].length, 40);
    EXPECT_TRUE(smallest.validation.empty());
    EXPECT_EQ(smallest.model.at("num_hidden_layers"), 2);
    EXPECT_LE(smallest.keys.size(), 6) << to_json(smallest);
  }
}

}  // namespace
}  // namespace fathom::random
