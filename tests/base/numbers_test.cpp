// Figures as text: separators, three digits, units, and nothing but 0 that looks like 0.
#include "base/numbers.h"

#include <gtest/gtest.h>

#include <limits>

namespace fathom {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Numbers, HaveSeparators) {
  EXPECT_EQ(format_decimal(1229.5, 1), "1,229.5");
  EXPECT_EQ(format_decimal(-1234567.891, 2), "-1,234,567.89");
  EXPECT_EQ(format_decimal(999.4, 0), "999");
  EXPECT_EQ(format_decimal(999.6, 0), "1,000");
  EXPECT_EQ(format_decimal(-100, 0), "-100");
  EXPECT_EQ(format_decimal(kInfinity, 1), "not finite");
}

TEST(Numbers, TakeAFormatOrAreTheirs) {
  EXPECT_EQ(format_by("× %.2f", 1.5), "× 1.50");
  EXPECT_EQ(format_gigabytes(1'623'400'000'000), "1,623.4");
  EXPECT_EQ(format_gigabytes(8'030'000'000), "8.03");
  EXPECT_EQ(format_gigabytes(4'200'000), "0.0042");
}

TEST(Numbers, TellTimesInThreeDigits) {
  EXPECT_EQ(format_seconds(8.6), "8.60 s");
  EXPECT_EQ(format_seconds(1.07), "1.07 s");
  EXPECT_EQ(format_seconds(2.5973), "2.60 s");
  EXPECT_EQ(format_seconds(0.99951), "1.00 s") << "not 1,000 ms";
  EXPECT_EQ(format_seconds(0.0125), "12.5 ms");
  EXPECT_EQ(format_seconds(0.12), "120 ms");
  EXPECT_EQ(format_seconds(0.00082), "820 µs");
  EXPECT_EQ(format_seconds(59.94), "59.9 s");
  EXPECT_EQ(format_seconds(59.96), "1m00s") << "not 60.0 s";
  EXPECT_EQ(format_seconds(754.2), "12m34s");
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(-1), "—");
  EXPECT_EQ(format_seconds(kInfinity), "—");
}

TEST(Numbers, TellDurationsInWholeSeconds) {
  EXPECT_EQ(format_duration(0.4), "0s");
  EXPECT_EQ(format_duration(59.4), "59s");
  EXPECT_EQ(format_duration(59.6), "1m00s");
  EXPECT_EQ(format_duration(185), "3m05s");
  EXPECT_EQ(format_duration(3725), "1h02m");
  EXPECT_EQ(format_duration(2 * 86400 + 3 * 3600), "2d03h");
  EXPECT_EQ(format_duration(-3), "0s");
}

TEST(Numbers, TellQuantitiesWithAPrefix) {
  EXPECT_EQ(format_quantity(9.894e14, "FLOP/s"), "989 TFLOP/s");
  EXPECT_EQ(format_quantity(4.52e10, "B/s"), "45.2 GB/s");
  EXPECT_EQ(format_quantity(999.6, "B"), "1.00 kB");
  EXPECT_EQ(format_quantity(1e22, "FLOP"), "10,000 EFLOP");
}

TEST(Numbers, SayZeroOfNothingElse) {
  EXPECT_EQ(format_change(0), "0");
  EXPECT_EQ(format_change(-0.000456), "-0.05 %");
  EXPECT_EQ(format_change(1e-9), "+1e-07 %");
  EXPECT_EQ(format_change(0.54), "+54.0 %");
  EXPECT_EQ(format_change(14.33), "+1,433 %");
  EXPECT_EQ(format_change(kInfinity), "—");
  EXPECT_EQ(format_deviation(16067338240, 16074678272), "-0.05 %");
  EXPECT_EQ(format_deviation(48533504, 68444168), "-29.1 %");
  EXPECT_EQ(format_deviation(5, 5), "0");
  EXPECT_EQ(format_deviation(5, 0), "—");
}

}  // namespace
}  // namespace fathom
