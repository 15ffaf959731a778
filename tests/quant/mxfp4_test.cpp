// MXFP4: its values, its scales, and the order of codes within a byte.
#include "quant/mxfp4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "quant/layout.h"
#include "tests/quant/golden.h"

namespace fathom::quant::mxfp4_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> read(const std::vector<uint8_t>& codes, float scale) {
  std::vector<float> values(2 * codes.size());
  dequantize_mxfp4(codes.data(), scale, static_cast<int64_t>(values.size()), values.data());
  return values;
}

struct Made {
  std::vector<uint8_t> codes;
  float scale;
};
Made made(const std::vector<float>& values) {
  Made made{std::vector<uint8_t>((values.size() + 1) / 2, 0xee), 0};
  made.scale = quantize_mxfp4(values.data(), static_cast<int64_t>(values.size()), made.codes.data());
  return made;
}

// FP4_VALUES of transformers' integrations/mxfp4.py.
TEST(Mxfp4, HasTheValuesOfE2m1TheFirstInTheLowHalf) {
  EXPECT_THAT(read({0x10, 0x32, 0x54, 0x76}, 1), ElementsAre(0, 0.5, 1, 1.5, 2, 3, 4, 6));
  EXPECT_THAT(read({0x98, 0xba, 0xdc, 0xfe}, 2), ElementsAre(0, -1, -2, -3, -4, -6, -8, -12));
}

TEST(Mxfp4, HasPowersOfTwoForScales) {
  EXPECT_EQ(kMxfp4Scales[127], 1);
  EXPECT_EQ(kMxfp4Scales[120], 0x1p-7f);
  EXPECT_EQ(kMxfp4Scales[0], 0x1p-127f);
  EXPECT_EQ(kMxfp4Scales[254], 0x1p127f);
  EXPECT_TRUE(std::isfinite(6 * kMxfp4Scales[kLargestMxfp4Exponent]));
  EXPECT_FALSE(std::isfinite(6 * kMxfp4Scales[kLargestMxfp4Exponent + 1]));
  for (int exponent = 1; exponent <= kLargestMxfp4Exponent; ++exponent) {
    EXPECT_EQ(mxfp4_exponent(kMxfp4Scales[exponent]), exponent);
  }
}

TEST(Mxfp4, ReadsVectorsAndWhatIsLeftAlike) {
  SplitMix64 random(3);
  std::vector<uint8_t> codes(29);
  for (uint8_t& byte : codes) byte = static_cast<uint8_t>(random.below(256));
  const std::vector<float> values = read(codes, 0x1p-9f);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint8_t code = i % 2 == 0 ? codes[i / 2] & 15 : codes[i / 2] >> 4;
    EXPECT_EQ(values[i], kMxfp4Values[code] * 0x1p-9f) << i;
  }
}

TEST(Mxfp4, TakesTheNearestCodeAndTheEvenOneOfTwo) {
  const Made halfway = made({4, 0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5, -0.75f, -5});
  EXPECT_EQ(halfway.scale, 1);
  EXPECT_THAT(read(halfway.codes, 1), ElementsAre(4, 0, 1, 1, 2, 2, 4, 4, -1, -4));
  SplitMix64 random(4);
  const std::vector<float> values = random_run(random.next(), kMxfp4Block, 0.01);
  const Made stored = made(values);
  const std::vector<float> back = read(stored.codes, stored.scale);
  for (size_t i = 0; i < values.size(); ++i) {
    for (const float value : kMxfp4Values) {
      EXPECT_LE(std::fabs(values[i] - back[i]), std::fabs(values[i] - value * stored.scale)) << i;
    }
  }
}

// floor(log2(largest)) - 2: what is beyond 6 of it becomes 6.
TEST(Mxfp4, ScalesByThePowerOfItsLargestMagnitude) {
  EXPECT_EQ(made({1, -6}).scale, 1);
  EXPECT_EQ(made({1, -7.9f}).scale, 1);
  EXPECT_EQ(read(made({1, -7.9f}).codes, 1)[1], -6);
  EXPECT_EQ(made({1, -8}).scale, 2);
  EXPECT_EQ(made({0x1p-100f, 0}).scale, 0x1p-102f);
  EXPECT_THAT(read(made({0, 0, 0}).codes, 1), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(made({0, 0}).scale, 0x1p-126f);
  EXPECT_EQ(made({std::numeric_limits<float>::max(), 0}).scale, 0x1p125f);
}

TEST(Mxfp4, TakesFourBitsAndAByteForEachBlock) {
  const Layout layout = layout_of(Scheme::kMxfp4, 6, 96);
  EXPECT_EQ(layout.code_bytes, 6 * 48);
  EXPECT_EQ(layout.scales, 6 * 3);
  EXPECT_EQ(layout.bytes(), 6 * (48 + 3));
  try {
    layout_of(Scheme::kMxfp4, 6, 90);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no whole number of MXFP4's blocks of 32"));
  }
}

}  // namespace
}  // namespace fathom::quant::mxfp4_test
