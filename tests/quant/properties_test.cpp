// What holds for every format with a scale, over random runs and random bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "quant/fp8.h"
#include "quant/int4.h"
#include "quant/int8.h"
#include "quant/magnitude.h"
#include "quant/nf4.h"
#include "tests/quant/golden.h"

namespace fathom::quant::properties_test {
namespace {

using Bytes = std::vector<uint8_t>;

struct Stored {
  Bytes codes;
  float scale = 0;
};

struct Case {
  std::string name;
  int64_t longest_run;
  Stored (*store)(const std::vector<float>& values);
  std::vector<float> (*read)(const Stored& stored, int64_t n);
  std::vector<uint8_t> every_code;  // bytes of all codes that quantizing can give
  bool symmetric;                   // of -x it stores the negative of what it stores of x
  bool idempotent;
};

template <float (*kQuantize)(const float*, int64_t, uint8_t*), int kPerByte>
Stored store(const std::vector<float>& values) {
  const auto n = static_cast<int64_t>(values.size());
  Stored stored{Bytes((n + kPerByte - 1) / kPerByte, 0xee)};
  stored.scale = kQuantize(values.data(), n, stored.codes.data());
  return stored;
}
template <void (*kDequantize)(const uint8_t*, float, int64_t, float*)>
std::vector<float> read(const Stored& stored, int64_t n) {
  std::vector<float> values(n);
  kDequantize(stored.codes.data(), stored.scale, n, values.data());
  return values;
}
float quantize_signed(const float* values, int64_t n, uint8_t* codes) {
  return quantize_int8(values, n, reinterpret_cast<int8_t*>(codes));
}
void dequantize_signed(const uint8_t* codes, float scale, int64_t n, float* values) {
  dequantize_int8(reinterpret_cast<const int8_t*>(codes), scale, n, values);
}

Bytes bytes_but(std::initializer_list<uint8_t> left_out) {
  Bytes bytes;
  for (int byte = 0; byte < 256; ++byte) {
    if (std::find(left_out.begin(), left_out.end(), byte) == left_out.end())
      bytes.push_back(static_cast<uint8_t>(byte));
  }
  return bytes;
}

std::vector<Case> cases() {
  return {
      {"INT8", 5000, store<quantize_signed, 1>, read<dequantize_signed>, bytes_but({0x80}), true, true},
      {"FP8", 5000, store<quantize_fp8, 1>, read<dequantize_fp8>, bytes_but({0x7f, 0xff}), true, true},
      {"NF4", kNf4Block, store<quantize_nf4, 2>, read<dequantize_nf4>, bytes_but({}), false, true},
      {"INT4", 5000, store<quantize_int4, 2>, read<dequantize_int4>, bytes_but({}), false, false},
  };
}

class QuantizedRun : public ::testing::TestWithParam<Case> {
 protected:
  const Case& format_ = GetParam();
  std::vector<float> through(const std::vector<float>& values) {
    return format_.read(format_.store(values), static_cast<int64_t>(values.size()));
  }
  template <typename Body>
  void for_random_runs(const Body& body) {
    SplitMix64 random(17);
    for (int i = 0; i < 60; ++i) {
      const auto n = static_cast<int64_t>(1 + random.below(i % 3 == 0 ? format_.longest_run : 64));
      body(random_run(random.next(), n, std::ldexp(1.0, static_cast<int>(random.below(180)) - 90)));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Formats, QuantizedRun, ::testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

// No code would have been nearer, but for a rounding of FP32 (in the middle between two codes): with codes at equal
// distances, half a step at most.
TEST_P(QuantizedRun, TakesTheNearestCode) {
  for_random_runs([&](const std::vector<float>& values) {
    const Stored stored = format_.store(values);
    const auto n = static_cast<int64_t>(values.size());
    const std::vector<float> actual = format_.read(stored, n);
    std::vector<float> all =
        format_.read({format_.every_code, stored.scale}, static_cast<int64_t>(format_.every_code.size()));
    std::sort(all.begin(), all.end());
    for (int64_t i = 0; i < n; ++i) {
      const auto above = std::lower_bound(all.begin(), all.end(), values[i]);
      double best = above == all.end() ? INFINITY : *above - double{values[i]};
      if (above != all.begin()) best = std::min(best, values[i] - double{above[-1]});
      EXPECT_LE(std::abs(double{actual[i]} - values[i]), best + std::abs(values[i]) * 0x1p-22) << values[i];
    }
  });
}

TEST_P(QuantizedRun, GivesItsCodesAgainForWhatWasReadBack) {
  if (!format_.idempotent) GTEST_SKIP() << "the largest value may not be stored as the largest code";
  for_random_runs([&](const std::vector<float>& values) {
    const Stored once = format_.store(values);
    const Stored twice = format_.store(format_.read(once, static_cast<int64_t>(values.size())));
    EXPECT_EQ(twice.codes, once.codes);
    EXPECT_NEAR(twice.scale, once.scale, once.scale * 0x1p-22f);
  });
}

TEST_P(QuantizedRun, KeepsTheOrder) {
  for_random_runs([&](std::vector<float> values) {
    std::sort(values.begin(), values.end());
    const std::vector<float> read = through(values);
    EXPECT_TRUE(std::is_sorted(read.begin(), read.end()));
  });
}

TEST_P(QuantizedRun, IsSymmetric) {
  if (!format_.symmetric) GTEST_SKIP() << "its codes are not";
  for_random_runs([&](std::vector<float> values) {
    std::vector<float> expected = through(values);
    for (float& value : values) value = -value;
    for (float& value : expected) value = -value;
    EXPECT_EQ(through(values), expected);
  });
}

TEST_P(QuantizedRun, ReadsZerosAsZeros) {
  for (const float zero : {0.0f, -0.0f, 1e-40f, kSmallestMagnitude * 0.99f}) {
    const std::vector<float> zeros(33, zero);
    EXPECT_EQ(format_.store(zeros).scale, 0);
    EXPECT_EQ(through(zeros), std::vector<float>(33, 0.0f));
    for (const float read : through(zeros)) EXPECT_FALSE(std::signbit(read));
  }
  EXPECT_GT(format_.store({kSmallestMagnitude}).scale, 0);
  EXPECT_EQ(format_.store({}).scale, 0);
}

// Any bits: a NaN or an infinity makes a NaN of everything; other values stay finite and below the largest magnitude,
// or a step of INT4 above it.
TEST_P(QuantizedRun, BearsAnyBits) {
  SplitMix64 random(23);
  for (int i = 0; i < 4000; ++i) {
    std::vector<float> values(1 + random.below(64));
    const uint32_t mask = i % 2 == 0   ? 0xffffffff
                          : i % 4 == 1 ? 0xbfffffff
                                       : 0x80ffffff;  // any, none special, subnormal
    for (float& value : values) value = std::bit_cast<float>(static_cast<uint32_t>(random.next()) & mask);
    const bool finite = std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
    const std::vector<float> read = through(values);
    if (!finite) {
      EXPECT_TRUE(std::all_of(read.begin(), read.end(), [](float value) { return std::isnan(value); }));
      continue;
    }
    const float largest = largest_magnitude(values.data(), static_cast<int64_t>(values.size()));
    if (largest > 0x1p126f) continue;
    for (const float value : read) EXPECT_LE(std::abs(value), largest * 1.07f);
  }
}

TEST(LargestMagnitude, IsNaNBesideOneSpecialValueWhereverItStands) {
  for (const float special : {INFINITY, -INFINITY, NAN, -NAN}) {
    for (int64_t place = 0; place < 100; ++place) {
      std::vector<float> values(100, -2);
      EXPECT_EQ(largest_magnitude(values.data(), 100), 2);
      values[place] = special;
      EXPECT_TRUE(std::isnan(largest_magnitude(values.data(), 100)));
      EXPECT_EQ(largest_magnitude(values.data(), place), place == 0 ? 0 : 2);
    }
  }
}

}  // namespace
}  // namespace fathom::quant::properties_test
