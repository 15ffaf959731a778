// Float formats bit by bit: every code read, and every kind of number stored, as torch and ml_dtypes do.
#include "quant/float_format.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/hash.h"
#include "base/json_value.h"
#include "base/split_mix.h"

namespace fathom::quant::float_format_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr FloatFormat kSmall[] = {kFp16, kBf16, kFp8E4m3, kFp8E5m2};

const Json& golden() {
  static const Json floats = read_json(FATHOM_SOURCE_DIR "/tests/quant/golden/floats.json");
  return floats;
}

std::string digest(const std::vector<uint32_t>& codes, int bits) {
  std::vector<uint8_t> bytes;
  for (const uint32_t code : codes) {
    for (int shift = 0; shift < bits; shift += 8) bytes.push_back(static_cast<uint8_t>(code >> shift));
  }
  return hash_bytes(bytes.data(), bytes.size());
}

TEST(FloatFormat, ReadsEveryCodeAsTorch) {
  for (const FloatFormat& format : kSmall) {
    std::vector<uint32_t> bits;
    for (uint32_t code = 0; code < uint32_t{1} << format.bits(); ++code) {
      const auto value = static_cast<float>(decode(format, code));
      bits.push_back(std::isnan(value) ? 0x7fc00000 : std::bit_cast<uint32_t>(value));
    }
    EXPECT_EQ(digest(bits, 32), golden()["formats"][std::string(format.name)]["values"]) << format.name;
  }
}

// Numbers around the ties of every format, subnormals, infinities and NaNs of FP32: scripts/golden/quant.py has the
// same.
TEST(FloatFormat, StoresFp32AsTorch) {
  for (const FloatFormat& format : kSmall) {
    const Json& expected = golden()["formats"][std::string(format.name)];
    std::vector<uint32_t> codes;
    for (uint32_t upper = 0; upper < 65536; ++upper) {
      for (const uint32_t lower : golden()["lower_halves"]) {
        const auto value = std::bit_cast<float>(upper << 16 | lower);
        codes.push_back(std::isnan(value) ? 0 : encode(format, value));
        if (std::isnan(decode(format, codes.back())) || std::isnan(value)) codes.back() = expected["nan"];
      }
    }
    EXPECT_EQ(digest(codes, format.bits()), expected["codes"]) << format.name;
  }
}

TEST(FloatFormat, Fp32IsTheMachines) {
  SplitMix64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const auto bits = static_cast<uint32_t>(random.next());
    const auto value = std::bit_cast<float>(bits);
    const double more = value + std::ldexp(random.uniform(), -149) + value * 0x1p-25 * random.uniform();
    if (std::isnan(value)) continue;
    EXPECT_EQ(decode(kFp32, bits), value);
    EXPECT_EQ(encode(kFp32, value), bits);
    EXPECT_EQ(encode(kFp32, more), std::bit_cast<uint32_t>(static_cast<float>(more))) << more;
  }
  EXPECT_EQ(kFp32.largest(), std::numeric_limits<float>::max());
  EXPECT_EQ(kFp32.smallest_normal(), std::numeric_limits<float>::min());
  EXPECT_EQ(kFp32.smallest_subnormal(), std::numeric_limits<float>::denorm_min());
}

TEST(FloatFormat, HasTheRangeThatItsSourceStates) {
  EXPECT_EQ(kFp16.largest(), 65504);
  EXPECT_EQ(kBf16.largest(), 0x1.fep127);
  EXPECT_EQ(kFp8E4m3.largest(), 448);
  EXPECT_EQ(kFp8E5m2.largest(), 57344);
  EXPECT_EQ(kFp8E4m3.smallest_normal(), 0x1p-6);
  EXPECT_EQ(kFp8E4m3.smallest_subnormal(), 0x1p-9);
  EXPECT_EQ(kFp8E5m2.smallest_normal(), 0x1p-14);
  EXPECT_EQ(kFp8E5m2.smallest_subnormal(), 0x1p-16);
  const double integers[] = {2048, 256, 16, 8};
  for (size_t i = 0; i < 4; ++i) {
    const double largest = kSmall[i].largest_exact_integer();
    EXPECT_EQ(largest, integers[i]);
    for (double integer = 0; integer <= largest; ++integer) {
      EXPECT_EQ(decode(kSmall[i], encode(kSmall[i], integer)), integer);
    }
    EXPECT_NE(decode(kSmall[i], encode(kSmall[i], largest + 1)), largest + 1);
  }
}

TEST(FloatFormat, OverflowsOrSaturates) {
  EXPECT_EQ(decode(kFp16, encode(kFp16, 65519)), 65504);
  EXPECT_EQ(decode(kFp16, encode(kFp16, 65520)), kInfinity);
  EXPECT_EQ(decode(kFp16, encode(kFp16, -70000, Overflow::kSaturate)), -65504);
  EXPECT_EQ(decode(kFp8E4m3, encode(kFp8E4m3, 464)), 448);
  EXPECT_TRUE(std::isnan(decode(kFp8E4m3, encode(kFp8E4m3, 464.001))));
  EXPECT_EQ(decode(kFp8E4m3, encode(kFp8E4m3, kInfinity, Overflow::kSaturate)), 448);
  EXPECT_EQ(decode(kFp8E5m2, encode(kFp8E5m2, -kInfinity)), -kInfinity);
  for (const FloatFormat& format : kSmall) {
    EXPECT_TRUE(std::isnan(decode(format, encode(format, std::nan(""), Overflow::kSaturate))));
    EXPECT_TRUE(std::signbit(decode(format, encode(format, -0.0))));
    EXPECT_EQ(encode(format, format.smallest_subnormal() / 2), 0u);  // a tie: 0 is even
    EXPECT_EQ(encode(format, format.smallest_subnormal() * 0.500001), 1u);
  }
}

// From FP64 in one rounding: 1 + 2^-11 + 2^-40 would be a tie after a rounding to FP32.
TEST(FloatFormat, RoundsOnce) { EXPECT_EQ(decode(kFp16, encode(kFp16, 1 + 0x1p-11 + 0x1p-40)), 1 + 0x1p-10); }

}  // namespace
}  // namespace fathom::quant::float_format_test
