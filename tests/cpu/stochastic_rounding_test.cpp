// Stochastic rounding: its odds, its draws, and that they are a function of their arguments alone.
#include "cpu/stochastic_rounding.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace fathom::cpu::stochastic_rounding_test {
namespace {

float widened(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

TEST(StochasticRounding, TakesTheTwoNeighboursWithTheOddsOfTheirDistance) {
  // 1 + 2^-7 comes after 1 in BF16; a fifth of the way between them.
  for (const float sign : {1.0f, -1.0f}) {
    const float value = sign * (1 + 0.2f / 128);
    int64_t upper = 0;
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const float rounded = widened(round_stochastically(value, bits));
      ASSERT_TRUE(rounded == sign || rounded == sign * (1 + 1.0f / 128));
      upper += rounded != sign;
    }
    EXPECT_NEAR(static_cast<double>(upper) / 65536, 0.2, 1e-4);
  }
}

TEST(StochasticRounding, LeavesWhatBF16HasAsItIs) {
  for (const float value : {0.0f, -0.0f, 1.0f, -3.5f, 0x1p-133f, std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
    for (const uint32_t bits : {0u, 1u, 0x8000u, 0xffffu}) {
      EXPECT_EQ(std::bit_cast<uint32_t>(widened(round_stochastically(value, bits))), std::bit_cast<uint32_t>(value));
    }
  }
  for (const uint32_t nan : {0x7fc00000u, 0x7fffffffu, 0xffffffffu, 0x7f800001u}) {
    EXPECT_TRUE(std::isnan(widened(round_stochastically(std::bit_cast<float>(nan), 0xffff))));
  }
}

std::vector<uint32_t> drawn(const DrawStream& stream, int64_t element, int64_t n) {
  std::vector<uint32_t> bits(n);
  draw(stream, element, n, bits.data());
  return bits;
}

TEST(StochasticRounding, DrawsDependOnTheElementNotOnTheRun) {
  const DrawStream stream = draw_stream(42, 7, 3);
  const std::vector<uint32_t> whole = drawn(stream, 100, 1000);
  for (const int64_t start : {0, 1, 255, 999}) {
    EXPECT_EQ(drawn(stream, 100 + start, 1).front(), whole[start]);
    EXPECT_EQ(drawn(draw_stream(42, 7, 3, start), 100, 1).front(), whole[start]);
  }
  constexpr int64_t kFar = (int64_t{1} << 32) - 3;
  const std::vector<uint32_t> across = drawn(stream, kFar, 6);
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(across[i], drawn(stream, kFar + i, 1).front());
  EXPECT_NE(across[3], drawn(stream, 0, 1).front());
}

// Means and correlations of 2^20 draws: five standard deviations of independent uniform ones.
TEST(StochasticRounding, DrawsAreUniformAndUnrelatedBetweenStepsParametersAndNeighbours) {
  constexpr int64_t kCount = int64_t{1} << 20;
  const double bound = 5 / std::sqrt(static_cast<double>(kCount));
  const auto numbers = [](const std::vector<uint32_t>& bits, int shift) {
    std::vector<double> values;
    for (const uint32_t each : bits) values.push_back((((each >> shift) & 0xffff) + 0.5) / 65536 - 0.5);
    return values;
  };
  const auto correlation = [](const std::vector<double>& a, const std::vector<double>& b, size_t lag) {
    double sum = 0;
    for (size_t i = 0; i + lag < a.size(); ++i) sum += a[i] * b[i + lag];
    return 12 * sum / static_cast<double>(a.size());
  };
  const std::vector<uint32_t> bits = drawn(draw_stream(1, 1, 0), 0, kCount);
  const std::vector<double> upper = numbers(bits, 16), lower = numbers(bits, 0);
  for (const std::vector<double>* values : {&upper, &lower}) {
    double sum = 0;
    for (const double value : *values) sum += value;
    EXPECT_LE(std::abs(sum / kCount) * std::sqrt(12), bound);
    EXPECT_NEAR(correlation(*values, *values, 0), 1, bound);
    for (const size_t lag : {1, 2, 16, 256, 1024}) EXPECT_LE(std::abs(correlation(*values, *values, lag)), bound);
  }
  EXPECT_LE(std::abs(correlation(upper, lower, 0)), bound);
  for (const DrawStream& other : {draw_stream(1, 2, 0), draw_stream(1, 1, 1), draw_stream(2, 1, 0)}) {
    EXPECT_LE(std::abs(correlation(upper, numbers(drawn(other, 0, kCount), 16), 0)), bound);
  }
}

}  // namespace
}  // namespace fathom::cpu::stochastic_rounding_test
