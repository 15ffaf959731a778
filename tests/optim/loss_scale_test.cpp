// The loss scale by the rules of torch.amp.GradScaler.
#include "optim/loss_scale.h"

#include <gtest/gtest.h>

#include "base/error.h"

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

TEST(LossScale, ComesBackAsItWasSaved) {
  LossScale scale;
  scale.count_skipped();
  scale.count_good();
  const LossScale again = LossScale::from_json(scale.to_json());
  EXPECT_EQ(again.value(), scale.value());
  EXPECT_EQ(again.good_steps(), 1);
  EXPECT_EQ(again.skipped_steps(), 1);
}

TEST(LossScale, RefusesWhatTrainingDoesNotMake) {
  const Json good = LossScale().to_json();
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, double>>{{"value", 0},
                                                                                        {"value", -2},
                                                                                        {"value", 3},
                                                                                        {"value", 0x1p200},
                                                                                        {"good_steps", -1},
                                                                                        {"good_steps", 2000},
                                                                                        {"skipped_steps", -1}}) {
    Json changed = good;
    changed[key] = value;
    EXPECT_THROW(LossScale::from_json(changed), Error) << key << " " << value;
  }
}

}  // namespace
}  // namespace fathom::optim
