// Generation: the choice of a token by hand-computed probabilities, and continuing a prompt with a tiny model.
#include "train/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json_value.h"
#include "ops/autocast.h"
#include "tests/train/tiny.h"

namespace fathom::train {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Probabilities 0.1, 0.4, 0.2, 0.3.
std::vector<float> tenths() { return {std::log(1.f), std::log(4.f), std::log(2.f), std::log(3.f)}; }

GenerationOptions sampling() {
  GenerationOptions options;
  options.temperature = 1;
  return options;
}

TEST(ChooseToken, GreedyTakesTheFirstOfTheLargest) {
  EXPECT_EQ(choose_token({1, 3, -2, 3}, {}, 0.99), 1);
  EXPECT_EQ(choose_token({-kInfinity, -5}, {}, 0), 1);
}

TEST(ChooseToken, DrawsByProbabilityLargestFirst) {
  const GenerationOptions options = sampling();
  for (auto [uniform, id] : {std::pair{0.0, 1}, {0.39, 1}, {0.41, 3}, {0.69, 3}, {0.71, 2}, {0.89, 2}, {0.91, 0}}) {
    EXPECT_EQ(choose_token(tenths(), options, uniform), id) << uniform;
  }
  EXPECT_EQ(choose_token(tenths(), options, std::nextafter(1.0, 0.0)), 0);
}

TEST(ChooseToken, TemperatureFlattensOrSharpens) {
  GenerationOptions options = sampling();
  options.temperature = 0.5;  // probabilities go as their squares: 16, 9, 4, 1 of 30
  EXPECT_EQ(choose_token(tenths(), options, 0.53), 1);
  EXPECT_EQ(choose_token(tenths(), options, 0.54), 3);
  EXPECT_EQ(choose_token(tenths(), options, 0.97), 0);
}

TEST(ChooseToken, TopKKeepsTheLargest) {
  GenerationOptions options = sampling();
  options.top_k = 2;  // 4 and 3 of 7
  EXPECT_EQ(choose_token(tenths(), options, 0.57), 1);
  EXPECT_EQ(choose_token(tenths(), options, 0.58), 3);
  EXPECT_EQ(choose_token(tenths(), options, 0.999), 3);
  options.top_k = 1;
  EXPECT_EQ(choose_token(tenths(), options, 0.999), 1);
  options.top_k = 100;
  EXPECT_EQ(choose_token(tenths(), options, 0.999), 0);
}

TEST(ChooseToken, TopPKeepsTheSmallestSetThatReachesIt) {
  GenerationOptions options = sampling();
  options.top_p = 0.65;  // 0.4 and 0.3
  EXPECT_EQ(choose_token(tenths(), options, 0.57), 1);
  EXPECT_EQ(choose_token(tenths(), options, 0.999), 3);
  options.top_p = 0.75;  // and 0.2
  EXPECT_EQ(choose_token(tenths(), options, 0.999), 2);
  options.top_p = 1e-9;  // never none
  EXPECT_EQ(choose_token(tenths(), options, 0.999), 1);
}

TEST(ChooseToken, RefusesLogitsThatAreNotFinite) {
  for (const std::vector<float>& logits : std::vector<std::vector<float>>{
           {1, std::nanf(""), 2}, {std::nanf(""), 1}, {1, kInfinity}, {-kInfinity, -kInfinity}, {}}) {
    EXPECT_THROW(choose_token(logits, {}, 0), Error);
    EXPECT_THROW(choose_token(logits, sampling(), 0.5), Error);
  }
  EXPECT_EQ(choose_token({-kInfinity, 1, -kInfinity}, sampling(), 0.999), 1);
}

class Generate : public ::testing::Test {
 protected:
  // What these tests took is no part of the next one's first stretch.
  void TearDown() override { testing::cpu_ledger().label(); }
};

TEST_F(Generate, KeepsWithinTheModelsPositions) {
  auto trainer = testing::tiny_trainer(testing::tiny_config());
  GenerationOptions options;
  for (int64_t length :
       {trainer->model().architecture().max_position_embeddings, std::numeric_limits<int64_t>::max()}) {
    options.max_new_tokens = length;
    try {
      generate(trainer->model(), {1}, options);
      ADD_FAILURE() << length << " new tokens were accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("positions"));
    }
  }
}

// Weights so large that the products' roundings in BF16 change what is said: an ignored autocast would say the same.
TEST_F(Generate, ComputesUnderAutocast) {
  auto trainer = testing::tiny_trainer(testing::tiny_config());
  GenerationOptions options;
  options.max_new_tokens = 40;
  options.temperature = 1;
  const std::vector<int32_t> in_fp32 = generate(trainer->model(), {5, 6, 7}, options);
  const ops::AutocastScope autocast(at::kCPU, true);
  const std::vector<int32_t> in_bf16 = generate(trainer->model(), {5, 6, 7}, options);
  ASSERT_EQ(in_bf16.size(), 40u);
  EXPECT_THAT(in_bf16, Each(::testing::AllOf(::testing::Ge(0), ::testing::Lt(101))));
  EXPECT_EQ(in_bf16, generate(trainer->model(), {5, 6, 7}, options));
  EXPECT_NE(in_bf16, in_fp32);
}

}  // namespace
}  // namespace fathom::train
