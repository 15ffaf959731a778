// FP8 with a scale: torchao's codes, and the bits of the format whichever way they are computed.
#include "quant/fp8.h"

#include "base/json_value.h"
#include "quant/float_format.h"
#include "tests/quant/golden.h"

namespace fathom::quant::fp8_test {
namespace {

constexpr int64_t kRow = 64;

TEST(Fp8, HasTheCodesOfTorchaoAndCompressedTensors) {
  const Json& golden = golden_blocks()["fp8"];
  const auto rows = array_of<float>(golden_blocks()["rows"]);
  std::vector<uint8_t> codes(rows.size());
  std::vector<float> scales(rows.size() / kRow), read(rows.size());
  for (size_t row = 0; row < scales.size(); ++row) {
    const size_t first = row * kRow;
    scales[row] = quantize_fp8(rows.data() + first, kRow, codes.data() + first);
    dequantize_fp8(codes.data() + first, scales[row], kRow, read.data() + first);
  }
  EXPECT_EQ(count_different(scales, array_of<float>(golden["scales"])), 0);
  EXPECT_EQ(count_different(codes, array_of<uint8_t>(golden["codes"])), 0);
  EXPECT_EQ(count_different(read, array_of<float>(golden["values"])), 0);
}

TEST(Fp8, ReadsEveryCodeAsTheFormatHasIt) {
  for (uint32_t code = 0; code < 256; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    float value = 0;
    dequantize_fp8(&byte, 1, 1, &value);
    const double expected = decode(kFp8E4m3, code);
    EXPECT_TRUE(std::isnan(expected) ? std::isnan(value) : value == static_cast<float>(expected)) << code;
    EXPECT_EQ(std::signbit(value), std::signbit(expected)) << code;
  }
}

TEST(Fp8, RoundsAsTheFormatDoes) {
  SplitMix64 random(5);
  std::vector<float> values = {448};
  while (values.size() < 20000) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random.next()) & 0xffff8000u);
    if (std::abs(value) <= 448) values.push_back(value);
  }
  for (uint32_t code = 0; code + 1 < 0x7e; ++code) {  // ties
    values.push_back(static_cast<float>((decode(kFp8E4m3, code) + decode(kFp8E4m3, code + 1)) / 2));
    values.push_back(-values.back());
  }
  std::vector<uint8_t> codes(values.size());
  ASSERT_EQ(quantize_fp8(values.data(), static_cast<int64_t>(values.size()), codes.data()), 1);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(codes[i], encode(kFp8E4m3, values[i])) << values[i];
}

}  // namespace
}  // namespace fathom::quant::fp8_test
