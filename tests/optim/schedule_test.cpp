// Schedules against values that transformers 5.23's get_scheduler gives.
#include "optim/schedule.h"

#include <gtest/gtest.h>

namespace fathom::optim::schedule_test {
namespace {

using config::Schedule;

TEST(Schedule, ConstantIgnoresWarmUp) {
  EXPECT_EQ(schedule_factor(Schedule::kConstant, 0, 10, 5), 1);
  EXPECT_EQ(schedule_factor(Schedule::kConstantWithWarmup, 0, 10, 4), 0);
  EXPECT_EQ(schedule_factor(Schedule::kConstantWithWarmup, 3, 10, 4), 0.75);
  EXPECT_EQ(schedule_factor(Schedule::kConstantWithWarmup, 4, 10, 4), 1);
}

TEST(Schedule, LinearFallsToZero) {
  EXPECT_EQ(schedule_factor(Schedule::kLinear, 0, 10, 0), 1);
  EXPECT_EQ(schedule_factor(Schedule::kLinear, 1, 10, 2), 0.5);
  EXPECT_EQ(schedule_factor(Schedule::kLinear, 2, 10, 2), 1);
  EXPECT_EQ(schedule_factor(Schedule::kLinear, 6, 10, 2), 0.5);
  EXPECT_EQ(schedule_factor(Schedule::kLinear, 10, 10, 2), 0);
  EXPECT_EQ(schedule_factor(Schedule::kLinear, 12, 10, 2), 0);
}

TEST(Schedule, CosineIsHalfWayInTheMiddle) {
  EXPECT_EQ(schedule_factor(Schedule::kCosine, 0, 10, 0), 1);
  EXPECT_NEAR(schedule_factor(Schedule::kCosine, 5, 10, 0), 0.5, 1e-12);
  EXPECT_NEAR(schedule_factor(Schedule::kCosine, 3, 10, 2), 0.9619397662556434, 1e-12);
  EXPECT_NEAR(schedule_factor(Schedule::kCosine, 10, 10, 2), 0, 1e-12);
}

TEST(Schedule, AWarmUpBelowOneIsAShareRoundedUp) {
  EXPECT_NEAR(schedule_factor(Schedule::kLinear, 1, 25, 0.1), 1 / 3.0, 1e-12);
  EXPECT_EQ(schedule_factor(Schedule::kLinear, 3, 25, 0.1), 1);
  EXPECT_EQ(schedule_factor(Schedule::kLinear, 1, 25, 2.9), 0.5);
}

}  // namespace
}  // namespace fathom::optim::schedule_test
