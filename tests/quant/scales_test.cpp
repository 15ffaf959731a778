// Double quantization: bitsandbytes' table, codes and values.
#include "quant/scales.h"

#include <limits>

#include "base/json_value.h"
#include "tests/quant/golden.h"

namespace fathom::quant {
namespace {

// Codes, outer scales and values read back of all blocks.
struct DoubleQuantized {
  explicit DoubleQuantized(const std::vector<float>& scales, float offset)
      : codes(scales.size()), values(scales.size()) {
    const auto n = static_cast<int64_t>(scales.size());
    for (int64_t i = 0; i < n; i += kScaleBlock) {
      const int64_t count = std::min(kScaleBlock, n - i);
      outer.push_back(quantize_scales(scales.data() + i, offset, count, codes.data() + i));
      dequantize_scales(codes.data() + i, outer.back(), offset, count, values.data() + i);
    }
  }
  std::vector<uint8_t> codes;
  std::vector<float> outer, values;
};

TEST(Scales, HaveTheTableAndTheCodesOfBitsandbytes) {
  const Json& golden = golden_blocks()["scales"];
  EXPECT_EQ(
      count_different({kSignedDynamic.values.begin(), kSignedDynamic.values.end()}, array_of<float>(golden["table"])),
      0);
  const auto scales = array_of<float>(golden["scales"]);
  const float offset = array_of<float>(golden["offset"])[0];
  const DoubleQuantized ours(scales, offset);
  EXPECT_EQ(count_different(ours.outer, array_of<float>(golden["outer"])), 0);
  EXPECT_EQ(count_different(ours.codes, array_of<uint8_t>(golden["codes"])), 0);
  EXPECT_EQ(count_different(ours.values, array_of<float>(golden["values"])), 0);
  // Its CPU library rounds to one of 65,536 steps first.
  EXPECT_LE(count_different(ours.codes, array_of<uint8_t>(golden["codes_of_its_cpu_library"])), 6);
}

// torch sums in FP32, in an order that its vectors give: we do in FP64 and round once.
TEST(Scales, HaveTheMeanOfTorchButForItsLastPlace) {
  const Json& golden = golden_blocks()["scales"];
  const auto scales = array_of<float>(golden["scales"]);
  const float mean = array_of<float>(golden["offset"])[0];
  EXPECT_NEAR(mean_scale(scales.data(), static_cast<int64_t>(scales.size())), mean, mean * 0x1p-22f);
  EXPECT_EQ(mean_scale(nullptr, 0), 0);
}

TEST(Scales, AreReadBackToAHundredthOfTheLargestDifference) {
  std::vector<float> scales = random_run(4, 1000, 0.01);
  for (float& scale : scales) scale = std::abs(scale) + 0.02f;
  const float offset = mean_scale(scales.data(), 1000);
  const DoubleQuantized stored(scales, offset);
  for (size_t i = 0; i < scales.size(); ++i) {
    const float largest = stored.outer[i / kScaleBlock];
    EXPECT_NEAR(stored.values[i], scales[i], 0.0071 * largest) << i;
  }
  const DoubleQuantized again(stored.values, offset);
  EXPECT_EQ(again.codes, stored.codes);
}

TEST(Scales, OfOneValueAreTheOffset) {
  const std::vector<float> scales(300, 0.25f);
  const DoubleQuantized stored(scales, mean_scale(scales.data(), 300));
  EXPECT_EQ(stored.outer, (std::vector<float>{0, 0}));
  EXPECT_EQ(stored.values, scales);
}

// The block of the one that is none, and no other.
TEST(Scales, NaNStaysNaN) {
  std::vector<float> scales(600, 0.25f);
  scales[300] = std::numeric_limits<float>::quiet_NaN();
  const DoubleQuantized stored(scales, 0.2f);
  EXPECT_EQ(stored.values[0], 0.25f);
  for (size_t i = 256; i < 512; ++i) EXPECT_TRUE(std::isnan(stored.values[i]));
  EXPECT_EQ(stored.values[599], 0.25f);
}

}  // namespace
}  // namespace fathom::quant
