// The loss scale by the rules of torch.amp.GradScaler.
#include "optim/loss_scale.h"

#include <gtest/gtest.h>

#include <string_view>

#include "base/error.h"
#include "base/json_value.h"

namespace fathom::optim {
namespace {

TEST(LossScale, HalvesAfterABadStepAndDoublesAfterTwoThousandGoodOnes) {
  LossScale scale;
  EXPECT_EQ(scale.value(), 65536);
  scale.count_skipped();
  EXPECT_EQ(scale.value(), 32768);
  for (int step = 0; step < 1999; ++step) scale.count_good();
  EXPECT_EQ(scale.value(), 32768);
  scale.count_good();
  EXPECT_EQ(scale.value(), 65536);
  EXPECT_EQ(scale.good_steps(), 0);
  for (int step = 0; step < 1999; ++step) scale.count_good();
  scale.count_skipped();
  EXPECT_EQ(scale.good_steps(), 0) << "good steps count in a row";
  EXPECT_EQ(scale.skipped_steps(), 2);
}

TEST(LossScale, EndsAtOneAndBelowFp32sLargestNumber) {
  LossScale scale;
  for (int step = 0; step < 15; ++step) scale.count_skipped();
  EXPECT_TRUE(scale.can_back_off());
  scale.count_skipped();
  EXPECT_EQ(scale.value(), 1);
  EXPECT_FALSE(scale.can_back_off());
  LossScale largest = LossScale::from_json({{"value", 0x1p127}, {"good_steps", 1999}, {"skipped_steps", 0}});
  largest.count_good();
  EXPECT_EQ(largest.value(), 0x1p127);
}

// 'g': a good step, 's': one whose gradients overflowed, 'n': one whose loss was not finite.
LossScale after(std::string_view steps) {
  LossScale scale;
  for (const char step : steps) {
    if (step == 'g') scale.count_good();
    if (step != 'g') scale.count_skipped(step == 's');
  }
  return scale;
}

TEST(LossScale, IsSettledUnlessStepsWereSkippedToTheEnd) {
  for (const char* steps : {"g", "sg", "ssssg", "nnnnng", "gs", "ssgs", "gnngs"})
    EXPECT_TRUE(after(steps).settled()) << steps;
  for (const char* steps : {"s", "n", "sss", "gss", "gn", "gsn", "nnngnn", "gggnss"})
    EXPECT_FALSE(after(steps).settled()) << steps;
  LossScale doubled = after("g");
  for (int step = 1; step < 2000; ++step) doubled.count_good();
  doubled.count_skipped();
  EXPECT_TRUE(doubled.settled()) << "one step is what it costs to double";
}

TEST(LossScale, ComesBackAsItWasSaved) {
  for (const char* steps : {"sg", "gs", "gss"}) {
    const LossScale scale = after(steps), again = LossScale::from_json(scale.to_json());
    EXPECT_EQ(again.to_json(), scale.to_json());
    EXPECT_EQ(again.settled(), scale.settled());
  }
  Json before = after("g").to_json();
  before.erase("unsettled");
  EXPECT_TRUE(LossScale::from_json(before).settled()) << "checkpoints of before can be gone on from";
}

TEST(LossScale, RefusesWhatTrainingDoesNotMake) {
  const Json good = LossScale().to_json();
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, double>>{{"value", 0},
                                                                                        {"value", -2},
                                                                                        {"value", 3},
                                                                                        {"value", 0x1p200},
                                                                                        {"good_steps", -1},
                                                                                        {"good_steps", 2000},
                                                                                        {"skipped_steps", -1},
                                                                                        {"unsettled", -1}}) {
    Json changed = good;
    changed[key] = value;
    EXPECT_THROW(LossScale::from_json(changed), Error) << key << " " << value;
  }
}

}  // namespace
}  // namespace fathom::optim
