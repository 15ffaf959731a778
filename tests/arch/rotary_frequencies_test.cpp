// How fast heads turn: as transformers has it, plain and stretched (scripts/golden/rotary.py).
#include "arch/rotary_frequencies.h"

#include <gtest/gtest.h>

#include <cmath>

#include "arch/architecture.h"
#include "base/json_value.h"

namespace fathom::arch {
namespace {

// A unit in the last place of FP32, relative: powers of theta come from different libraries.
constexpr double kLastPlace = 1.2e-7;

void expect_near(const std::vector<float>& actual, const Json& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    const auto value = expected[i].get<double>();
    EXPECT_NEAR(actual[i], value, 4 * kLastPlace * value) << what << ", pair " << i;
  }
}

TEST(RotaryFrequencies, AreThoseOfTransformers) {
  const Json cases = read_json(FATHOM_SOURCE_DIR "/tests/ops/golden/rotary_frequencies.json");
  ASSERT_GE(cases.size(), 20u);
  for (const Json& each : cases) {
    const std::string what = each["config"].dump();
    const Architecture architecture = parse_architecture(each["config"], "config.json");
    const Rotary& rotary = *architecture.layers.front().attention().rotary;
    expect_near(rotary_frequencies(rotary), each["frequencies"], what);
    EXPECT_NEAR(rotary.magnitude, each["magnitude"].get<double>(), 1e-9) << what;
    const Json& beyond = each.contains("beyond") ? each["beyond"] : each["frequencies"];
    expect_near(rotary_frequencies(rotary, /*beyond_original=*/true), beyond, what);
  }
}

TEST(RotaryFrequencies, AreStretchedBelowTheLowBorderOnly) {
  const Rotary rotary{.width = 128, .theta = 500000};
  Rotary stretched = rotary;
  stretched.scaling = Llama3Rope{8, 1, 4, 8192};
  const std::vector<float> plain = rotary_frequencies(rotary), slow = rotary_frequencies(stretched);
  EXPECT_EQ(slow.front(), plain.front());
  EXPECT_EQ(slow.back(), plain.back() / 8);
  size_t between = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_LE(slow[i], plain[i]);
    EXPECT_GE(slow[i], plain[i] / 8);
    between += slow[i] < plain[i] && slow[i] > plain[i] / 8;
  }
  EXPECT_GT(between, 3u);
}

TEST(RotaryFrequencies, OfAnAlphaSlowTheSlowestPairByIt) {
  const Rotary rotary{.width = 128, .theta = 10000};
  Rotary stretched = rotary;
  stretched.scaling = NtkRope{1000};
  const std::vector<float> plain = rotary_frequencies(rotary), slow = rotary_frequencies(stretched);
  EXPECT_EQ(slow.front(), plain.front());
  EXPECT_NEAR(slow.back(), plain.back() / 1000, 1e-6 * plain.back() / 1000);
  EXPECT_NEAR(slow[32], std::pow(10000 * std::pow(1000, 128.0 / 126), -0.5), 1e-9);
}

TEST(RotaryFrequencies, BehindAStillFrontAreThoseOfTheRestAlone) {
  const YarnRope yarn{.factor = 40, .original_positions = 64};
  const std::vector<float> alone = rotary_frequencies({.width = 8, .theta = 500, .scaling = yarn});
  const std::vector<float> behind = rotary_frequencies({.width = 14, .still_front = 6, .theta = 500, .scaling = yarn});
  ASSERT_EQ(behind.size(), 7U);
  EXPECT_EQ(std::vector<float>(behind.begin(), behind.begin() + 3), std::vector<float>(3, 0.0F));
  EXPECT_EQ(std::vector<float>(behind.begin() + 3, behind.end()), alone);
}

TEST(QueryScale, GrowsInSteps) {
  const Rotary rotary{.width = 4, .query_scale = 2, .query_growth = 0.1, .query_growth_positions = 100};
  EXPECT_EQ(query_scale(rotary, 99), 2);
  EXPECT_DOUBLE_EQ(query_scale(rotary, 100), 2 * (1 + 0.1 * std::log(2.0)));
  EXPECT_DOUBLE_EQ(query_scale(rotary, 399), 2 * (1 + 0.1 * std::log(4.0)));
}

}  // namespace
}  // namespace fathom::arch
