// Rows of a chunk of logits, and what the loss then takes.
#include "footprint/loss_chunk.h"

#include "ledger/ledger.h"
#include "ops/head_loss.h"
#include "tests/ops/compare.h"

namespace fathom::ops {
namespace {

constexpr bool kFrozen = true, kTrained = false, kCuda = true, kCpu = false;

TEST(LossChunk, is_the_setting_where_the_head_is_trained) {
  for (const bool device : {kCpu, kCuda}) {
    EXPECT_EQ(footprint::loss_chunk_rows(4096, 1024, 128'256, 4, kTrained, device), 1024);
    EXPECT_EQ(footprint::loss_chunk_rows(100, 1024, 128'256, 4, kTrained, device), 100);
    EXPECT_EQ(footprint::loss_chunk_rows(4096, 0, 128'256, 4, kTrained, device), 4096);
  }
}

TEST(LossChunk, is_bounded_by_bytes_but_wide_enough_for_products) {
  EXPECT_EQ(footprint::loss_chunk_rows(512, 1024, 32'000, 4, kFrozen, kCpu), 131);
  EXPECT_EQ(footprint::loss_chunk_rows(512, 1024, 32'000, 2, kFrozen, kCpu), 262);
  EXPECT_EQ(footprint::loss_chunk_rows(512, 1024, 128'256, 4, kFrozen, kCpu), 128);
  EXPECT_EQ(footprint::loss_chunk_rows(512, 1024, 128'256, 2, kFrozen, kCpu), 256);
  EXPECT_EQ(footprint::loss_chunk_rows(512, 1024, 256, 4, kFrozen, kCpu), 512);
  EXPECT_EQ(footprint::loss_chunk_rows(512, 64, 32'000, 4, kFrozen, kCpu), 64);
  EXPECT_EQ(footprint::loss_chunk_rows(100, 1024, 128'256, 4, kFrozen, kCpu), 100);
  EXPECT_EQ(footprint::loss_chunk_rows(512, 0, 128'256, 4, kFrozen, kCpu), 512);
}

TEST(LossChunk, is_larger_on_a_gpu) {
  EXPECT_EQ(footprint::loss_chunk_rows(4096, 1024, 49'152, 4, kFrozen, kCuda), 341);
  EXPECT_EQ(footprint::loss_chunk_rows(4096, 1024, 49'152, 2, kFrozen, kCuda), 682);
  EXPECT_EQ(footprint::loss_chunk_rows(4096, 1024, 128'256, 4, kFrozen, kCuda), 256);
  EXPECT_EQ(footprint::loss_chunk_rows(4096, 1024, 256, 4, kFrozen, kCuda), 1024);
  EXPECT_EQ(footprint::loss_chunk_rows(4096, 64, 128'256, 4, kFrozen, kCuda), 64);
}

TEST(LossChunk, takes_what_the_layers_need_anyway) {
  const int64_t spare = footprint::bytes_beside_gate(2048, 14'336, 2);
  EXPECT_EQ(spare, 3 * 2048 * 14'336 * 2);
  EXPECT_EQ(footprint::loss_chunk_rows(2048, 1024, 128'256, 2, kFrozen, kCuda, spare), 686);
  EXPECT_EQ(footprint::loss_chunk_rows(4096, 1024, 128'256, 2, kFrozen, kCuda, 2 * spare), 1024);
  EXPECT_EQ(footprint::loss_chunk_rows(2048, 1024, 128'256, 2, kFrozen, kCuda, 1), 261) << "64 MiB";
  EXPECT_EQ(footprint::loss_chunk_rows(2048, 1024, 128'256, 2, kFrozen, kCpu, spare), 256);
}

TEST(HeadGradientRows, are_few_beside_the_logits_and_enough_for_products) {
  EXPECT_EQ(footprint::head_gradient_rows(262'144, 640, 2), 13'056);
  EXPECT_EQ(footprint::head_gradient_rows(300, 640, 2), 300);
  EXPECT_EQ(footprint::head_gradient_rows(128'256, 1'000'000, 2), 64);
}

// 5,000 rows of 1,000 numbers: 20 MB in FP32, of which at most 16 MiB are there at a time.
TEST(LossChunk, with_a_frozen_head_the_loss_takes_no_more) {
  ledger::Ledger& ledger = ledger::install_cpu();
  const at::Tensor head_VD = at::ones({1000, 8}), targets_T = at::zeros({5000}, at::kLong);
  for (const bool trained : {false, true}) {
    const at::Tensor x_TD = at::ones({5000, 8}).set_requires_grad(true) * 1;
    head_VD.set_requires_grad(trained);
    ledger.label();
    ledger.begin_phase(memory::Phase::kForward);
    head_loss(x_TD, head_VD, head_VD, {{}, targets_T, 1, 8192});
    ledger.end_phase();
    const int64_t taken = ledger.label().peak - ledger.live_bytes();
    EXPECT_GT(taken, trained ? 5000 * 4000 : 0);
    EXPECT_LE(taken, trained ? 5010 * 4000 : footprint::kChunkBytes + 5000);
    ledger.forget();
  }
}

}  // namespace
}  // namespace fathom::ops
