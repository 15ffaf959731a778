#include "play/attention_curve.h"

#include <gtest/gtest.h>

#include "base/json_value.h"
#include "ledger/ledger.h"
#include "ops/attention/amx_attention.h"

namespace fathom::play {
namespace {

arch::Architecture small_architecture() {
  arch::Architecture architecture;
  architecture.layers.push_back(
      {.mixer = arch::Attention{.heads = 4, .key_value_heads = 2, .head_dim = 16, .rotary = arch::Rotary{.width = 16}},
       .feed_forward = {}});
  return architecture;
}

class AttentionCurve : public ::testing::TestWithParam<bool> {
 protected:
  std::vector<AttentionPoint> take(int64_t longest, double seconds, int64_t bytes = 1 << 30) const {
    config::RunConfig config;
    config.bf16 = GetParam();
    const train::Placement cpu{at::kCPU, &ledger::install_cpu(), nullptr};
    return attention_curve(arch::resolve(config, small_architecture()), cpu, {longest, seconds, bytes});
  }
};

TEST_P(AttentionCurve, IsMeasuredAsPlayed) {
  const std::vector<AttentionPoint> points = take(1024, 60);
  ASSERT_EQ(points.size(), 2u);
  for (const AttentionPoint& point : points) {
    for (const AttentionCost* cost : {&point.flash, &point.math}) {
      ASSERT_TRUE(cost->measured) << point.length;
      EXPECT_EQ(*cost->dry_run, *cost->measured) << point.length;
      EXPECT_GT(*cost->seconds, 0) << point.length;
    }
  }
}

TEST_P(AttentionCurve, GrowsWithTheLengthForFlashAndWithItsSquareForMath) {
  const std::vector<AttentionPoint> points = take(131072, 0);
  ASSERT_EQ(points.back().length, 131072);
  for (size_t i = 1; i < points.size(); ++i) {
    const auto growth = [&](AttentionCost AttentionPoint::*kernel) {
      return static_cast<double>(*(points[i].*kernel).dry_run) / static_cast<double>(*(points[i - 1].*kernel).dry_run);
    };
    // In AMX's tiles the blocks that each thread works on do not grow, and are much beside short sequences.
    const bool has_blocks = GetParam() && ops::has_amx_attention(at::kCPU, at::kBFloat16);
    EXPECT_LT(growth(&AttentionPoint::flash), 2.05) << points[i].length;
    EXPECT_GT(growth(&AttentionPoint::flash), has_blocks && points[i].length < 32768 ? 1.5 : 1.95) << points[i].length;
    EXPECT_NEAR(growth(&AttentionPoint::math), 4, 0.4) << points[i].length;
  }
}

TEST_P(AttentionCurve, IsNotMeasuredBeyondItsTime) {
  const std::vector<AttentionPoint> points = take(4096, 0);
  EXPECT_TRUE(points.front().flash.seconds) << "the first one is always measured";
  EXPECT_FALSE(points.back().flash.seconds);
  EXPECT_EQ(to_json(points).back().at("math").at("seconds"), Json(nullptr));
}

TEST_P(AttentionCurve, IsNotMeasuredBeyondItsMemory) {
  const std::vector<AttentionPoint> points = take(1024, 60, 8 << 20);
  EXPECT_TRUE(points.back().flash.measured);
  EXPECT_FALSE(points.back().math.measured) << "takes " << *points.back().math.dry_run << " bytes";
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionCurve, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "bfloat16" : "float32"; });

}  // namespace
}  // namespace fathom::play
