// Numbers to be shown: what each format makes of them, against the formats' own functions and known values.
#include "quant/stored_number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace fathom::quant::stored_number_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

StoredNumber stored_in(const std::string& format, double number, bool scaled = false) {
  for (const StoredNumber& stored : stored_in_every_format(number, power_of_two_from(number))) {
    if (stored.format == format && stored.scale.has_value() == scaled) return stored;
  }
  ADD_FAILURE() << format;
  return {};
}

TEST(StoredNumber, Pi) {
  EXPECT_EQ(stored_in("FP32", std::numbers::pi).bits, "0 10000000 10010010000111111011011");
  EXPECT_EQ(stored_in("FP32", std::numbers::pi).value, std::numbers::pi_v<float>);
  EXPECT_EQ(stored_in("FP16", std::numbers::pi).value, 3.140625);
  EXPECT_EQ(stored_in("FP16", std::numbers::pi).bits, "0 10000 1001001000");
  EXPECT_EQ(stored_in("BF16", std::numbers::pi).value, 3.140625);
  EXPECT_EQ(stored_in("FP8 E4M3", std::numbers::pi).value, 3.25);
  EXPECT_EQ(stored_in("FP8 E5M2", std::numbers::pi).value, 3);
  EXPECT_EQ(stored_in("INT8", std::numbers::pi).value, 3);
  EXPECT_EQ(stored_in("INT8", std::numbers::pi).bits, "00000011");
  const StoredNumber scaled = stored_in("INT8", std::numbers::pi, true);
  EXPECT_EQ(scaled.code, 100);
  EXPECT_EQ(scaled.scale, 4.0f / 127);
  EXPECT_EQ(scaled.value, 100 * (4.0f / 127));
  const StoredNumber nf4 = stored_in("NF4", -std::numbers::pi, true);
  EXPECT_EQ(nf4.bits, "0001");
  EXPECT_EQ(nf4.value, -0.6961928009986877f * 4);
  EXPECT_EQ(stored_in("INT4", std::numbers::pi, true).code, 6);
}

TEST(StoredNumber, ATenthDiffersInFp16AndBf16) {
  EXPECT_EQ(stored_in("FP16", 0.1).value, 0.0999755859375);
  EXPECT_EQ(stored_in("BF16", 0.1).value, 0.10009765625);
  EXPECT_EQ(stored_in("INT8", 0.1).value, 0);
}

TEST(StoredNumber, OverflowIsMarked) {
  EXPECT_EQ(stored_in("FP16", 70000).value, kInfinity);
  EXPECT_TRUE(stored_in("FP16", 70000).beyond);
  EXPECT_TRUE(std::isnan(stored_in("FP8 E4M3", 70000).value));
  EXPECT_TRUE(stored_in("FP8 E4M3", 70000).beyond);
  EXPECT_EQ(stored_in("INT8", -70000).value, -127);
  EXPECT_TRUE(stored_in("INT8", -70000).beyond);
  EXPECT_FALSE(stored_in("INT8", 127.4).beyond);
  EXPECT_FALSE(stored_in("BF16", 70000).beyond);
  EXPECT_FALSE(stored_in("FP16", kInfinity).beyond);
}

TEST(StoredNumber, AnyNumberIsShown) {
  for (const double number : {0.0, -0.0, 5e-324, -1e-40, 1e300, -kInfinity, std::nan("")}) {
    const std::vector<StoredNumber> all = stored_in_every_format(number, power_of_two_from(number));
    EXPECT_EQ(all.size(), 10u);
    for (const StoredNumber& stored : all) {
      EXPECT_FALSE(stored.bits.empty());
      const bool special = !std::isfinite(number) || std::abs(number) > std::numeric_limits<float>::max();
      if (!stored.scale) continue;
      EXPECT_EQ(std::isnan(stored.value), special) << stored.format << " " << number;
    }
  }
  EXPECT_FALSE(std::signbit(stored_in("INT8", -0.3).value));
}

TEST(StoredNumber, PowersOfTwoAreFoundFromTheNumberOn) {
  EXPECT_EQ(power_of_two_from(std::numbers::pi), 4);
  EXPECT_EQ(power_of_two_from(-0.1), 0.125);
  EXPECT_EQ(power_of_two_from(4), 4);
  EXPECT_EQ(power_of_two_from(0), 1);
  EXPECT_EQ(power_of_two_from(1e300), std::numeric_limits<float>::max());
}

TEST(StoredNumber, RangesAreThoseOfTheFormats) {
  const std::vector<FormatRange> ranges = ranges_of_formats();
  ASSERT_EQ(ranges.size(), 8u);
  EXPECT_EQ(ranges[1].format, "FP16");
  EXPECT_EQ(ranges[1].largest, 65504);
  EXPECT_EQ(ranges[2].exact_integers_to, 256);
  EXPECT_EQ(ranges[3].smallest_subnormal, 0x1p-9);
  EXPECT_EQ(ranges[5].least, -127);
  EXPECT_EQ(ranges[6].least, -8);
  EXPECT_EQ(ranges[7].bytes, 0.5);
  for (const FormatRange& range : ranges) {
    EXPECT_EQ(8 * range.bytes, range.sign_bits + range.exponent_bits + range.fraction_bits) << range.format;
  }
}

}  // namespace
}  // namespace fathom::quant::stored_number_test
