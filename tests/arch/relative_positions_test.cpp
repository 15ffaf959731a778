#include "arch/relative_positions.h"

#include <gtest/gtest.h>

namespace fathom::arch {
namespace {

// T5's 32 buckets up to 128 tokens, by its formula.
TEST(RelativePositions, AreSingleNearAndSharedFar) {
  constexpr int64_t kLength = 1001;
  const std::vector<int64_t> both = distance_buckets({32, 128}, kLength, true);
  const std::vector<int64_t> causal = distance_buckets({32, 128}, kLength, false);
  ASSERT_EQ(both.size(), 2 * kLength - 1);
  const auto of = [&](const std::vector<int64_t>& buckets, int64_t distance) {
    return buckets.at(kLength - 1 + distance);
  };
  for (int64_t distance = 0; distance < 8; ++distance) {
    EXPECT_EQ(of(both, -distance), distance);
    EXPECT_EQ(of(both, distance), distance + (distance > 0 ? 16 : 0));
  }
  EXPECT_EQ(of(both, -8), 8);
  EXPECT_EQ(of(both, -11), 8);
  EXPECT_EQ(of(both, -12), 9);
  EXPECT_EQ(of(both, -90), 14);
  EXPECT_EQ(of(both, -91), 15);
  EXPECT_EQ(of(both, -1000), 15);
  EXPECT_EQ(of(both, 1000), 31);
  for (int64_t distance = 0; distance < 16; ++distance) EXPECT_EQ(of(causal, -distance), distance);
  EXPECT_EQ(of(causal, -16), 16);
  EXPECT_EQ(of(causal, -112), 30);
  EXPECT_EQ(of(causal, -113), 31);
  EXPECT_EQ(of(causal, -1000), 31);
  EXPECT_EQ(of(causal, 5), 0) << "hidden anyway";
}

}  // namespace
}  // namespace fathom::arch
