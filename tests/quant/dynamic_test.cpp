// Dynamic 8-bit codes: bitsandbytes' tables and codes, and that the nearest code is found for every value.
#include "quant/dynamic.h"

#include <algorithm>
#include <limits>

#include "base/json_value.h"
#include "tests/quant/golden.h"

namespace fathom::quant::dynamic_test {
namespace {

const Json& golden() {
  static const Json dynamic = read_json(FATHOM_SOURCE_DIR "/tests/quant/golden/dynamic.json");
  return dynamic;
}

// Of a block whose largest magnitude is 1, so that values are fractions.
std::vector<uint8_t> codes_of(const DynamicMap& map, std::vector<float> values) {
  values.push_back(1);
  std::vector<uint8_t> codes(values.size());
  EXPECT_EQ(quantize_dynamic(map, values.data(), static_cast<int64_t>(values.size()), codes.data()), 1);
  codes.pop_back();
  return codes;
}

TEST(Dynamic, HasTheTablesAndTheCodesOfBitsandbytes) {
  for (const auto& [name, map] : {std::pair{"signed", &kSignedDynamic}, std::pair{"unsigned", &kUnsignedDynamic}}) {
    const Json& expected = golden()[name];
    EXPECT_EQ(count_different({map->values.begin(), map->values.end()}, array_of<float>(expected["table"])), 0);
    const auto values = array_of<float>(expected["values"]);
    std::vector<uint8_t> codes(values.size());
    std::vector<float> scales, read(values.size());
    const auto n = static_cast<int64_t>(values.size());
    for (int64_t i = 0; i < n; i += kDynamicBlock) {
      const int64_t count = std::min(kDynamicBlock, n - i);
      scales.push_back(quantize_dynamic(*map, values.data() + i, count, codes.data() + i));
      dequantize_dynamic(*map, codes.data() + i, scales.back(), count, read.data() + i);
    }
    EXPECT_EQ(count_different(scales, array_of<float>(expected["scales"])), 0) << name;
    EXPECT_EQ(count_different(codes, array_of<uint8_t>(expected["codes"])), 0) << name;
    EXPECT_EQ(count_different(read, array_of<float>(expected["read"])), 0) << name;
  }
}

// As a search in the table finds them; the values go through in runs.
void expect_nearest(const DynamicMap& map, const std::vector<float>& values, size_t run_length) {
  for (size_t start = 0; start < values.size(); start += run_length) {
    const size_t end = std::min(values.size(), start + run_length);
    const std::vector<float> run(values.begin() + static_cast<int64_t>(start),
                                 values.begin() + static_cast<int64_t>(end));
    const std::vector<uint8_t> codes = codes_of(map, run);
    for (size_t i = 0; i < run.size(); ++i) {
      const auto nearest = std::lower_bound(map.midpoints.begin(), map.midpoints.end() - 1, run[i]);
      ASSERT_EQ(codes[i], nearest - map.midpoints.begin()) << run[i];
    }
  }
}

// Around every border, and all over FP32.
TEST(Dynamic, FindsTheNearestCode) {
  for (const DynamicMap* map : {&kSignedDynamic, &kUnsignedDynamic}) {
    std::vector<float> values = {0, -0.0f, 1e-40f, -1e-40f};
    for (size_t i = 0; i < 255; ++i) {
      const float border = map->midpoints[i];
      for (const float value : {border, std::nextafter(border, -2.0f), std::nextafter(border, 2.0f)}) {
        values.push_back(value);
      }
      values.push_back(map->values[i]);
    }
    for (uint32_t upper = 0; upper <= std::bit_cast<uint32_t>(1.0f) >> 12; ++upper) {
      const auto value = std::bit_cast<float>(upper << 12);
      values.push_back(value);
      if (map == &kSignedDynamic) values.push_back(-value);
    }
    expect_nearest(*map, values, kDynamicBlock - 1);
    expect_nearest(*map, values, 14);  // too few for vectors
  }
}

TEST(Dynamic, GivesCodesAgain) {
  for (const DynamicMap* map : {&kSignedDynamic, &kUnsignedDynamic}) {
    std::array<uint8_t, 256> codes{}, again{};
    std::array<float, 256> values{};
    for (size_t i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(i);
    dequantize_dynamic(*map, codes.data(), 3e-7f, 256, values.data());
    EXPECT_EQ(quantize_dynamic(*map, values.data(), 256, again.data()), 3e-7f);
    EXPECT_EQ(again, codes);
  }
}

TEST(Dynamic, ZerosStayZerosAndNaNSpoilsItsBlock) {
  std::vector<float> values(100, 0.0f), read(100);
  std::vector<uint8_t> codes(100);
  EXPECT_EQ(quantize_dynamic(kSignedDynamic, values.data(), 100, codes.data()), 0);
  dequantize_dynamic(kSignedDynamic, codes.data(), 0, 100, read.data());
  EXPECT_EQ(read, values);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    values[17] = bad;
    const float scale = quantize_dynamic(kUnsignedDynamic, values.data(), 100, codes.data());
    dequantize_dynamic(kUnsignedDynamic, codes.data(), scale, 100, read.data());
    for (const float value : read) EXPECT_TRUE(std::isnan(value));
  }
}

}  // namespace
}  // namespace fathom::quant::dynamic_test
