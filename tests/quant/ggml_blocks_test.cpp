// Q8_0 and Q4_0: the bytes of llama.cpp's own package, and what no scale can hold.
#include "quant/ggml_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/json_value.h"
#include "tests/quant/golden.h"
#include "weights/gguf_writer.h"

namespace fathom::quant::ggml_blocks_test {
namespace {

const Json& golden() {
  static const Json blocks = read_json(FATHOM_SOURCE_DIR "/tests/quant/golden/ggml_blocks.json");
  return blocks;
}

using Quantize = bool (*)(const float*, int64_t, std::byte*);
using Dequantize = void (*)(const std::byte*, int64_t, float*);

void expect_golden(const std::string& name, Quantize quantize, Dequantize dequantize) {
  const auto values = array_of<float>(golden()["values"]);
  const auto expected = array_of<std::byte>(golden()[name]);
  std::vector<std::byte> blocks(expected.size());
  ASSERT_TRUE(quantize(values.data(), std::ssize(values), blocks.data()));
  EXPECT_EQ(count_different(blocks, expected), 0);
  std::vector<float> read(values.size());
  dequantize(blocks.data(), std::ssize(values), read.data());
  EXPECT_EQ(count_different(read, array_of<float>(golden()[name + "_read"])), 0);
}

TEST(GgmlBlocks, AreThoseOfLlamaCpp) {
  expect_golden("q8_0", quantize_q8_0, dequantize_q8_0);
  expect_golden("q4_0", quantize_q4_0, dequantize_q4_0);
}

TEST(GgmlBlocks, HaveTheSizesOfTheirFiles) {
  using weights::GgufType;
  EXPECT_EQ(kGgmlBlock, weights::kGgufBlock);
  EXPECT_EQ(weights::gguf_row_bytes(GgufType::kQ8_0, 3 * kGgmlBlock), 3 * kQ8_0Bytes);
  EXPECT_EQ(weights::gguf_row_bytes(GgufType::kQ4_0, 3 * kGgmlBlock), 3 * kQ4_0Bytes);
}

TEST(GgmlBlocks, TellWhatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 1e10f}) {
    for (const int64_t place : {0, 31, 40}) {
      std::vector<float> values(64, 1.0f);
      values[place] = bad;
      std::vector<std::byte> blocks(2 * kQ8_0Bytes);
      EXPECT_FALSE(quantize_q8_0(values.data(), 64, blocks.data())) << bad << " at " << place;
      EXPECT_FALSE(quantize_q4_0(values.data(), 64, blocks.data())) << bad << " at " << place;
    }
  }
}

TEST(GgmlBlocks, ReadValuesBelowEveryScaleAsZero) {
  const std::vector<float> values(kGgmlBlock, 1e-40f);
  std::vector<std::byte> blocks(kQ8_0Bytes);
  std::vector<float> read(kGgmlBlock, 1.0f);
  ASSERT_TRUE(quantize_q8_0(values.data(), kGgmlBlock, blocks.data()));
  dequantize_q8_0(blocks.data(), kGgmlBlock, read.data());
  for (const float value : read) EXPECT_EQ(value, 0);
  ASSERT_TRUE(quantize_q4_0(values.data(), kGgmlBlock, blocks.data()));
  dequantize_q4_0(blocks.data(), kGgmlBlock, read.data());
  for (const float value : read) EXPECT_EQ(value, 0);
}

}  // namespace
}  // namespace fathom::quant::ggml_blocks_test
