// NF4: table, codes and bytes of bitsandbytes; blocks of every length.
#include "quant/nf4.h"

#include "base/json_value.h"
#include "tests/quant/golden.h"

namespace fathom::quant {
namespace {

TEST(Nf4, HasTheTableAndTheCodesOfBitsandbytes) {
  const Json& golden = golden_blocks()["nf4"];
  EXPECT_EQ(count_different({kNf4Values.begin(), kNf4Values.end()}, array_of<float>(golden["table"])), 0);
  const auto rows = array_of<float>(golden_blocks()["rows"]);
  std::vector<uint8_t> codes(rows.size() / 2);
  std::vector<float> scales(rows.size() / kNf4Block), read(rows.size());
  for (size_t block = 0; block < scales.size(); ++block) {
    const size_t first = block * kNf4Block;
    scales[block] = quantize_nf4(rows.data() + first, kNf4Block, codes.data() + first / 2);
    dequantize_nf4(codes.data() + first / 2, scales[block], kNf4Block, read.data() + first);
  }
  EXPECT_EQ(count_different(scales, array_of<float>(golden["scales"])), 0);
  EXPECT_EQ(count_different(codes, array_of<uint8_t>(golden["codes"])), 0);
  EXPECT_EQ(count_different(read, array_of<float>(golden["values"])), 0);
}

// bitsandbytes' CUDA kernels have the thresholds as literals, four of which a compiler rounds the other way.
TEST(Nf4, HasTheThresholdsOfItsCudaKernelsButForTheLastPlaceOfFour) {
  const std::vector<float> literals = {
      -0.8480964004993439f,  -0.6106329262256622f,   -0.4599952697753906f, -0.33967943489551544f, -0.23460740596055984f,
      -0.13791173323988914f, -0.045525018125772476f, 0.03979014977812767f, 0.1202552504837513f,   0.2035212516784668f,
      0.2920137718319893f,   0.3893125355243683f,    0.5016634166240692f,  0.6427869200706482f,   0.8614784181118011f};
  EXPECT_EQ(count_different({kNf4Thresholds.begin(), kNf4Thresholds.end()}, literals), 4);
  for (size_t i = 0; i < literals.size(); ++i) EXPECT_FLOAT_EQ(kNf4Thresholds[i], literals[i]);
}

TEST(Nf4, AThresholdItselfHasTheLowerCode) {
  for (size_t i = 0; i < kNf4Thresholds.size(); ++i) {
    const std::vector<float> values = {1, kNf4Thresholds[i], std::nextafter(kNf4Thresholds[i], 2.0f)};
    std::vector<uint8_t> codes(2);
    ASSERT_EQ(quantize_nf4(values.data(), 3, codes.data()), 1);
    EXPECT_EQ(codes[0], 0xf0 | i);
    EXPECT_EQ(codes[1], (i + 1) << 4 | 7);  // and beside the last of an odd number a zero
  }
}

// Whole vectors and what is left of them.
TEST(Nf4, ReadsBlocksOfEveryLength) {
  std::vector<uint8_t> codes(kNf4Block / 2);
  SplitMix64 random(9);
  for (uint8_t& byte : codes) byte = static_cast<uint8_t>(random.below(256));
  for (int64_t n = 0; n <= kNf4Block; ++n) {
    std::vector<float> values(kNf4Block + 1, -7);
    dequantize_nf4(codes.data(), 0.3f, n, values.data());
    for (int64_t i = 0; i < n; ++i) {
      const int code = i % 2 == 0 ? codes[i / 2] >> 4 : codes[i / 2] & 15;
      EXPECT_EQ(values[i], kNf4Values[code] * 0.3f) << n << " " << i;
    }
    EXPECT_EQ(values[n], -7) << n;
  }
}

}  // namespace
}  // namespace fathom::quant
