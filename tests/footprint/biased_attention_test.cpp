// What attention with a bias takes, as worked out by hand; the memory matrix holds it against the dry run.
#include "footprint/biased_attention.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace fathom::footprint {
namespace {

int64_t widest(const std::vector<Tensors>& moments) {
  int64_t bytes = 0;
  for (const Tensors& moment : moments) bytes = std::max(bytes, bytes_of(moment));
  return bytes;
}

// 3 heads of 4 numbers. Of 2 rows, queries (or their output) are 2 x 3 x 5 x 4 numbers, keys (or values) 2 x 3 x 7 x 4,
// scores 2 x 3 x 5 x 7.
constexpr int64_t kQueries = 120, kKeys = 168, kScores = 210;

BiasedAttentionSizes sizes() {
  BiasedAttentionSizes sizes;
  sizes.rows = 2;
  sizes.heads = sizes.key_heads = 3;
  sizes.head_size = 4;
  sizes.queries = 5;
  sizes.keys = 7;
  return sizes;
}

enum class By { kKernel, kOperators };  // on a CPU, on CUDA

StepSizes step(int64_t bytes, By by = By::kKernel) {
  StepSizes step;
  step.cuda = by == By::kOperators;
  step.tokens = 10;
  step.stored_bytes = step.compute_bytes = bytes;
  return step;
}

TEST(BiasedAttention, KeepsQueriesKeysAndValues) {
  EXPECT_EQ(bytes_of(biased_attention_footprint(step(4), sizes()).kept), 4 * (kQueries + 2 * kKeys));
  BiasedAttentionSizes alone = sizes();
  alone.differentiated = false;
  const Footprint footprint = biased_attention_footprint(step(4), alone);
  EXPECT_TRUE(footprint.kept.empty());
  EXPECT_TRUE(footprint.backward.empty());
}

int64_t forward(const StepSizes& step, const BiasedAttentionSizes& sizes) {
  return widest(biased_attention_footprint(step, sizes).forward);
}
int64_t backward(const StepSizes& step, const BiasedAttentionSizes& sizes) {
  return widest(biased_attention_footprint(step, sizes).backward);
}

// What came and its copies, the output; by operators scores and probabilities in FP32, by the kernel these in the type
// of the keys, and what is made of them.
TEST(BiasedAttention, CopiesWhatItReads) {
  EXPECT_EQ(forward(step(4), sizes()), 4 * (2 * kQueries + 4 * kKeys + 2 * kQueries + kScores));
  EXPECT_EQ(forward(step(4, By::kOperators), sizes()), 4 * (2 * kQueries + 4 * kKeys + kQueries + 2 * kScores));
  BiasedAttentionSizes reversed = sizes();
  reversed.by_distance = true;
  EXPECT_EQ(forward(step(4), reversed), 4 * (3 * kQueries + 4 * kKeys + 2 * kQueries + kScores));
  EXPECT_EQ(forward(step(4, By::kOperators), reversed), 4 * (3 * kQueries + 4 * kKeys + kQueries + 2 * kScores));
  reversed.rows = 1;  // whose heads lie as they are needed
  EXPECT_EQ(forward(step(4, By::kOperators), reversed), 4 * (2 * kQueries + 2 * kKeys + kQueries + 2 * kScores) / 2);
}

// The gradients of queries and output, of values, and four tensors of scores, five with dropout; by the kernel two, and
// the gradients of keys.
TEST(BiasedAttention, TensorsOfScoresGoBackward) {
  EXPECT_EQ(backward(step(4), sizes()), 4 * (2 * kQueries + 2 * kKeys + 2 * kScores));
  EXPECT_EQ(backward(step(4, By::kOperators), sizes()), 4 * (2 * kQueries + kKeys + 4 * kScores));
  BiasedAttentionSizes dropping = sizes();
  dropping.dropout = true;
  EXPECT_EQ(backward(step(4), dropping), 4 * (2 * kQueries + 2 * kKeys + 2 * kScores) + kScores);
  EXPECT_EQ(backward(step(4, By::kOperators), dropping), 4 * (2 * kQueries + kKeys + 5 * kScores) + kScores);
  EXPECT_EQ(backward(step(2), sizes()), 2 * (2 * kQueries + 2 * kKeys) + 4 * kScores);
  EXPECT_EQ(backward(step(2, By::kOperators), sizes()), 2 * (2 * kQueries + kKeys) + 16 * kScores);
}

// By operators diagonals are the widest of one row: 3 heads x 5 queries x (7 + 5), beside two tensors of scores, and
// the gradient of 3 x 11 distances with what is added to it.
TEST(BiasedAttention, GradientsOfABiasAreSummedAlongDiagonals) {
  BiasedAttentionSizes trained = sizes();
  trained.by_distance = trained.trains_bias = true;
  trained.rows = 1;
  EXPECT_EQ(backward(step(4), trained), 4 * ((2 * kQueries + 2 * kKeys) / 2 + kScores + 3 * 11));
  EXPECT_EQ(backward(step(4, By::kOperators), trained),
            4 * ((2 * kQueries + kKeys) / 2 + kScores + 3 * 5 * 12 + 2 * 3 * 11));
}

}  // namespace
}  // namespace fathom::footprint
