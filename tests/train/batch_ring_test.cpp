// The ring takes the batches that it was made for, and tells of others before LibTorch does.
#include "train/batch_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/train/tiny.h"

namespace fathom::train {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

data::Batch shape(int64_t rows, int64_t length, int64_t source_length = 0) {
  data::Batch batch;
  batch.rows = rows;
  batch.length = length;
  batch.source_length = source_length;
  batch.target_count = rows * length;
  return batch;
}

TEST(BatchRing, RefusesABatchLargerThanTheLargest) {
  BatchRing ring({6, 8}, {}, at::kCPU, testing::cpu_ledger());
  EXPECT_EQ(ring.put(shape(2, 3)).inputs.ids_BS.sizes(), (at::IntArrayRef{2, 3}));
  EXPECT_EQ(ring.put(shape(1, 6, 8)).inputs.source_BS.numel(), 8);
  EXPECT_THAT([&] { ring.put(shape(1, 7)); },
              ThrowsMessage<Error>(HasSubstr("a batch has 7 tokens, and the run was planned for at most 6")));
  EXPECT_THAT([&] { ring.put(shape(1, 2, 9)); }, ThrowsMessage<Error>(HasSubstr("9 tokens of sources")));
  BatchRing of_rows({6}, {}, at::kCPU, testing::cpu_ledger());
  EXPECT_THROW(of_rows.put(shape(1, 2, 1)), Error);
}

}  // namespace
}  // namespace fathom::train
