// Every number of 8 and 16 bits, and the borders of the wider ones, at every place and alignment.
#include "base/finite.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace fathom {
namespace {

template <typename Word>
bool one_is_finite(DType type, Word word) {
  return all_finite(reinterpret_cast<const std::byte*>(&word), type, sizeof word);
}

// By the definitions: value = significand * 2^exponent, unless the exponent's bits are all set.
TEST(Finite, TellsEveryNumberOf16Bits) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto word = static_cast<uint16_t>(bits);
    EXPECT_EQ(one_is_finite(DType::kBF16, word), std::isfinite(std::bit_cast<float>(bits << 16))) << bits;
    EXPECT_EQ(one_is_finite(DType::kF16, word), (bits >> 10 & 31) != 31) << bits;
  }
}

TEST(Finite, TellsEveryNumberOf8Bits) {
  for (uint32_t bits = 0; bits < 256; ++bits) {
    const auto word = static_cast<uint8_t>(bits);
    EXPECT_EQ(one_is_finite(DType::kF8E5M2, word), (bits >> 2 & 31) != 31) << bits;
    EXPECT_EQ(one_is_finite(DType::kF8E4M3, word), bits != 0x7F && bits != 0xFF) << bits;
    EXPECT_TRUE(one_is_finite(DType::kU8, word)) << "codes are no numbers";
  }
}

template <typename Number>
void expect_one_is_found_anywhere(DType type) {
  using Limits = std::numeric_limits<Number>;
  constexpr int64_t kCount = 9001;  // more than two blocks, and a rest
  std::vector<std::byte> bytes(kCount * sizeof(Number) + 1);
  for (const size_t offset : {size_t{0}, size_t{1}}) {
    std::byte* data = bytes.data() + offset;
    const auto put = [&](int64_t at, Number value) { std::memcpy(data + at * sizeof value, &value, sizeof value); };
    for (int64_t i = 0; i < kCount; ++i) put(i, i % 2 == 0 ? Limits::max() : -Limits::denorm_min());
    EXPECT_TRUE(all_finite(data, type, kCount * sizeof(Number)));
    for (const int64_t at : {0, 1, 4095, 4096, 8191, 9000}) {
      for (const Number bad : {Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()}) {
        put(at, bad);
        EXPECT_FALSE(all_finite(data, type, kCount * sizeof(Number))) << bad << " at " << at;
      }
      put(at, 1);
    }
  }
}

TEST(Finite, FindsOneAnywhere) {
  expect_one_is_found_anywhere<float>(DType::kF32);
  expect_one_is_found_anywhere<double>(DType::kF64);
}

TEST(Finite, NothingIsFinite) { EXPECT_TRUE(all_finite(nullptr, DType::kF32, 0)); }

}  // namespace
}  // namespace fathom
