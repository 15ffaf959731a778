// How flash attention divides its keys on a GPU, as worked out by hand from LibTorch's heuristic; drawn samples hold
// the estimate against the dry runs of phantom GPUs.
#include "footprint/attention.h"

#include <gtest/gtest.h>

namespace fathom::footprint {
namespace {

// What the forward pass takes beside what it keeps, in 16 bits.
int64_t beside(AttentionSizes sizes) {
  StepSizes step;
  step.cuda = true;
  step.tokens = sizes.rows * sizes.lengths.front();
  step.stored_bytes = step.compute_bytes = 2;
  const Footprint footprint = attention_footprint(step, sizes);
  return bytes_of(footprint.forward.front()) - bytes_of(footprint.kept);
}

AttentionSizes sizes(int64_t rows, int64_t heads, int64_t head_size, int64_t length, int64_t multiprocessors) {
  AttentionSizes sizes;
  sizes.rows = rows;
  sizes.lengths.assign(static_cast<size_t>(rows), length);
  sizes.heads = sizes.key_heads = heads;
  sizes.head_size = head_size;
  sizes.multiprocessors = multiprocessors;
  return sizes;
}

// 135 tiles of queries on 340 places, two blocks of keys: halves keep twice as many busy. A part has for each query and
// head an output of 32 numbers, in FP32, and the sum of its scores.
TEST(FlashAttention, DividesKeysWhereQueriesDoNotFillAGpu) {
  EXPECT_EQ(beside(sizes(3, 9, 8, 260, 170)), 2 * 780 * 9 * (32 + 1) * 4);
  EXPECT_EQ(beside(sizes(1, 2, 128, 1024, 132)), 8 * 1024 * 2 * (128 + 1) * 4);
}

TEST(FlashAttention, LeavesKeysTogether) {
  EXPECT_EQ(beside(sizes(3, 9, 8, 260, 132)), 0) << "135 of 264 places: halves would take a second turn";
  EXPECT_EQ(beside(sizes(3, 9, 8, 256, 170)), 0) << "one block of keys";
  EXPECT_EQ(beside(sizes(8, 32, 128, 2048, 170)), 0) << "more tiles than places";
  AttentionSizes packed = sizes(1, 9, 8, 780, 170);
  packed.packed = true;
  EXPECT_EQ(beside(packed), 0);
}

}  // namespace
}  // namespace fathom::footprint
