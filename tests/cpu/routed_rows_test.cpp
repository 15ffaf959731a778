// Rows sorted by expert, and sums over those of a token.
#include "cpu/routed_rows.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace fathom::cpu {
namespace {

TEST(RoutedRows, AreSortedByExpertAndThenByToken) {
  const std::array<int64_t, 6> experts = {2, 0, 0, 3, 2, 0};  // of three tokens, two each
  std::array<int32_t, 6> pair_of{}, row_of{};
  std::array<int64_t, 4> counts{};
  sort_by_expert(experts.data(), 6, 4, pair_of.data(), row_of.data(), counts.data());
  EXPECT_EQ(counts, (std::array<int64_t, 4>{3, 0, 2, 1}));
  EXPECT_EQ(pair_of, (std::array<int32_t, 6>{1, 2, 5, 0, 4, 3}));
  for (size_t pair = 0; pair < row_of.size(); ++pair) {
    EXPECT_EQ(pair_of[static_cast<size_t>(row_of[pair])], static_cast<int32_t>(pair));
  }
}

// Wider than the block in which they are added up.
TEST(RoutedRows, AreAddedUpForEachToken) {
  constexpr int64_t kWidth = 1500, kTokens = 2, kEach = 2;
  std::vector<float> in(kTokens * kEach * kWidth), out(kTokens * kWidth);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  const std::array<int32_t, 4> row_of = {3, 0, 1, 2};
  sum_rows({in.data(), RowType::kF32}, row_of.data(), kEach, {out.data(), RowType::kF32}, 0, kTokens, kWidth);
  EXPECT_EQ(out[0], 3 * kWidth);
  EXPECT_EQ(out[kWidth - 1], 3 * kWidth + 2 * (kWidth - 1));
  EXPECT_EQ(out[2 * kWidth - 1], 3 * kWidth + 2 * (kWidth - 1));
}

TEST(RoutedRows, AreMultipliedAndSummed) {
  std::vector<float> x(2 * 1100, 0.5F), y(2 * 1100, 2.0F);
  y.back() = 12;
  std::array<float, 2> sums{};
  dot_rows({x.data(), RowType::kF32}, {y.data(), RowType::kF32}, sums.data(), 0, 2, 1100);
  EXPECT_EQ(sums[0], 1100);
  EXPECT_EQ(sums[1], 1105);
}

}  // namespace
}  // namespace fathom::cpu
