// Ticks are round, in order, and inside their axis.
#include "page/scale.h"

#include <gtest/gtest.h>

#include <cmath>

namespace fathom::page {
namespace {

void expect_sound(const Axis& axis, int ticks_at_most) {
  ASSERT_FALSE(axis.ticks.empty());
  EXPECT_LE(axis.ticks.size(), static_cast<size_t>(ticks_at_most) + 2);
  double before = -1;
  for (const Tick& tick : axis.ticks) {
    EXPECT_GT(tick.share, before);
    EXPECT_GE(tick.share, 0);
    EXPECT_LE(tick.share, 1 + 1e-9);
    before = tick.share;
  }
}

TEST(ByteAxis, HasRoundBinaryTicks) {
  const Axis axis = byte_axis(int64_t{13} << 30, 5);
  ASSERT_EQ(axis.ticks.size(), 3U);
  EXPECT_EQ(axis.ticks[0].label, "0");
  EXPECT_EQ(axis.ticks[1].label, "5 GiB");
  EXPECT_EQ(axis.ticks[2].label, "10 GiB");
  EXPECT_NEAR(axis.share(static_cast<double>(int64_t{5} << 30)), axis.ticks[1].share, 1e-12);
}

TEST(ByteAxis, HoldsWhateverItShows) {
  for (int64_t bytes = 0; bytes < (int64_t{1} << 61); bytes = bytes * 3 + 1) {
    SCOPED_TRACE(bytes);
    const Axis axis = byte_axis(bytes, 6);
    expect_sound(axis, 6);
    EXPECT_LT(axis.share(static_cast<double>(bytes)), 1);
  }
}

TEST(LinearAxis, EndsOnTicks) {
  const Axis axis = linear_axis(0.32, 4.55, 5);
  EXPECT_EQ(axis.first, 0);
  EXPECT_EQ(axis.last, 5);
  EXPECT_EQ(axis.ticks.front().label, "0");
  EXPECT_EQ(axis.ticks.back().label, "5");
  EXPECT_EQ(linear_axis(0.001, 0.0032, 5).ticks[1].label, "0.0015");
}

TEST(LinearAxis, TakesAnyRange) {
  for (const auto& [low, high] :
       {std::pair{0.0, 0.0}, {3.0, 3.0}, {5.0, -5.0}, {-1e9, 1e12}, {NAN, 1.0}, {0.0, INFINITY}}) {
    SCOPED_TRACE(std::to_string(low) + " " + std::to_string(high));
    const Axis axis = linear_axis(low, high, 6);
    EXPECT_GT(axis.last, axis.first);
    expect_sound(axis, 6);
  }
}

TEST(TightLogarithmicAxis, HoldsItsRangeWithRoundTicks) {
  const auto label = [](double value) { return std::to_string(value); };
  for (const auto& [low, high] : {std::pair{0.07, 4.4}, {1.0, 1.0}, {3.0, 3.2}, {1e-9, 1e9}, {0.0, 1.0}, {NAN, NAN}}) {
    SCOPED_TRACE(std::to_string(low) + " " + std::to_string(high));
    const Axis axis = tight_logarithmic_axis(low, high, label);
    expect_sound(axis, 20);
    if (!(low > 0)) continue;
    EXPECT_GT(axis.share(low), 0);
    EXPECT_LT(axis.share(high), 1);
  }
  EXPECT_EQ(tight_logarithmic_axis(0.07, 4.4, label).ticks.size(), 6U) << "0.1, 0.2, 0.5, 1, 2, 5";
}

TEST(LogarithmicAxis, StandsOnPowers) {
  const auto label = [](double value) { return std::to_string(std::llround(value)); };
  const Axis axis = logarithmic_axis(600, 131072, 2, label, 9);
  EXPECT_EQ(axis.first, 512);
  EXPECT_EQ(axis.last, 131072);
  EXPECT_EQ(axis.ticks.size(), 9U);
  EXPECT_EQ(axis.ticks[1].label, "1024");
  EXPECT_NEAR(axis.share(8192), 0.5, 1e-12);
  expect_sound(logarithmic_axis(-1, 0, 10, label, 4), 4);
  expect_sound(logarithmic_axis(1e-9, 1e9, 10, label, 5), 5);
}

}  // namespace
}  // namespace fathom::page
