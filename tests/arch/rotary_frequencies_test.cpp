// How fast heads turn: as transformers has it, plain and stretched (scripts/golden/rotary.py).
#include "arch/rotary_frequencies.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace fathom::arch {
namespace {

// A unit in the last place of FP32, relative: powers of theta come from different libraries.
constexpr double kLastPlace = 1.2e-7;

TEST(RotaryFrequencies, AreThoseOfTransformers) {
  const Json cases = read_json(FATHOM_SOURCE_DIR "/tests/ops/golden/rotary_frequencies.json");
  ASSERT_GE(cases.size(), 9u);
  for (const Json& each : cases) {
    std::optional<ScaledRope> scaling;
    if (const Json& said = each["scaling"]; !said.is_null()) scaling = {said[0], said[1], said[2], said[3]};
    const auto expected = each["frequencies"].get<std::vector<double>>();
    const std::vector<float> actual = rotary_frequencies(each["theta"], each["head_size"], scaling);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_NEAR(actual[i], expected[i], 3 * kLastPlace * expected[i]) << each["theta"] << " " << i;
    }
  }
}

TEST(RotaryFrequencies, AreStretchedBelowTheLowBorderOnly) {
  const ScaledRope scaling = {8, 1, 4, 8192};
  const std::vector<float> plain = rotary_frequencies(500000, 128, {}), slow = rotary_frequencies(500000, 128, scaling);
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

}  // namespace
}  // namespace fathom::arch
