// INT4 in groups: the codes, scales and bytes of compressed-tensors.
#include "quant/int4.h"

#include <limits>

#include "base/json_value.h"
#include "tests/quant/golden.h"

namespace fathom::quant {
namespace {

constexpr int64_t kGroup = 32;

TEST(Int4, HasTheCodesOfCompressedTensors) {
  const Json& golden = golden_blocks()["int4"];
  const auto rows = array_of<float>(golden_blocks()["rows"]);
  std::vector<uint8_t> codes(rows.size() / 2);
  std::vector<float> scales(rows.size() / kGroup), read(rows.size());
  for (size_t group = 0; group < scales.size(); ++group) {
    const size_t first = group * kGroup;
    scales[group] = quantize_int4(rows.data() + first, kGroup, codes.data() + first / 2);
    dequantize_int4(codes.data() + first / 2, scales[group], kGroup, read.data() + first);
  }
  EXPECT_EQ(count_different(scales, array_of<float>(golden["scales"])), 0);
  EXPECT_EQ(count_different(codes, array_of<uint8_t>(golden["codes"])), 0);
  EXPECT_EQ(count_different(read, array_of<float>(golden["values"])), 0);
}

TEST(Int4, HasTheFirstOfTwoValuesInTheLowHalf) {
  const std::vector<float> values = {7.5f, -7.5f, 1};
  std::vector<uint8_t> codes(2);
  EXPECT_EQ(quantize_int4(values.data(), 3, codes.data()), 1);
  EXPECT_EQ(codes, (std::vector<uint8_t>{0x0f, 0x89}));  // 7 and -8; 1, and beside the last of an odd number a zero
}

TEST(Int4, TiesGoToTheEvenCodeAndWhatIsBeyondToTheOutermost) {
  const std::vector<float> values = {0.5f, 1.5f, -0.5f, -1.5f, 100, -100, std::numeric_limits<float>::infinity(), 3};
  std::vector<uint8_t> codes(values.size() / 2);
  std::vector<float> read(values.size());
  quantize_int4_with(values.data(), 1, static_cast<int64_t>(values.size()), codes.data());
  dequantize_int4(codes.data(), 1, static_cast<int64_t>(values.size()), read.data());
  EXPECT_EQ(read, (std::vector<float>{0, 2, 0, -2, 7, -8, 7, 3}));
}

TEST(Int4, GivesItsCodesAgainForItsOwnScale) {
  for (const int64_t n : {1, 7, 32, 255, 256, 257, 1000}) {
    const std::vector<float> values = random_run(n, n, 0.02);
    std::vector<uint8_t> codes((n + 1) / 2), again(codes.size());
    std::vector<float> read(n);
    const float scale = quantize_int4(values.data(), n, codes.data());
    dequantize_int4(codes.data(), scale, n, read.data());
    quantize_int4_with(read.data(), scale, n, again.data());
    EXPECT_EQ(again, codes) << n;
  }
}

}  // namespace
}  // namespace fathom::quant
