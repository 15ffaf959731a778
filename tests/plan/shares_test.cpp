// What a process has of a model that several share, worked out by hand; runs hold it against what is measured
// (tests/app/processes_test.cpp).
#include "plan/estimate/shares.h"

#include <gtest/gtest.h>

#include "tests/plan/llama_8b.h"

namespace fathom::plan::shares_test {
namespace {

using testing::llama_8b;

config::RunConfig run_of(int64_t processes) {
  config::RunConfig run;
  run.num_processes = processes;
  run.strategy = config::Strategy::kFsdp;
  run.dtype = DType::kBF16;
  return run;
}

// Embedding and head 128,256 x 4,096 each; a layer 4,096 x (4,096 + 1,024 + 1,024 + 4,096 + 3 x 14,336 + 2).
constexpr int64_t kTable = int64_t{2} * 525'336'576, kLayer = int64_t{2} * 218'112'000, kNorm = 8'192;

TEST(UnitShares, AreOfEmbeddingLayersAndHead) {
  const arch::Architecture architecture = llama_8b();
  const config::RunConfig run = run_of(4);
  const auto shares = unit_shares(arch::resolve(run, architecture));
  ASSERT_EQ(shares.size(), 34U);
  EXPECT_EQ(bytes_of(shares[0].gathered), kTable);
  EXPECT_EQ(bytes_of(shares[1].gathered), kLayer);
  EXPECT_EQ(bytes_of(shares[33].gathered), kTable + kNorm);
  // The unit's gradients, and three quarters of them from the others; a quarter stays.
  EXPECT_EQ(bytes_of(shares[1].reduced), kLayer + kLayer / 4 * 3);
  EXPECT_EQ(bytes_of(shares[1].gradient), kLayer / 4);
}

// The embedding and norms are read in FP32.
TEST(UnitShares, GatherCastsOfMatrices) {
  const arch::Architecture architecture = llama_8b();
  config::RunConfig run = run_of(4);
  run.dtype = DType::kF32;
  run.bf16 = true;
  const auto shares = unit_shares(arch::resolve(run, architecture));
  EXPECT_EQ(bytes_of(shares[0].gathered), 2 * kTable);
  EXPECT_EQ(bytes_of(shares[1].gathered), kLayer + 2 * kNorm);
  EXPECT_EQ(bytes_of(shares[1].gradient), 2 * kLayer / 4);
  EXPECT_EQ(bytes_of(shares[33].gathered), kTable + 2 * kNorm);
  run.qat = config::Qat::kInt8;  // rounds projections as they are stored
  const auto rounded = unit_shares(arch::resolve(run, architecture));
  EXPECT_GT(bytes_of(rounded[1].gathered), 2 * kLayer);
  EXPECT_EQ(bytes_of(rounded[33].gathered), kTable + 2 * kNorm);
}

// All of a layer but two norms is in blocks, and half of it is gathered.
TEST(UnitShares, GatherCastsThatEndWithBlocksOfMoments) {
  const arch::Architecture architecture = llama_8b();
  config::RunConfig run = run_of(7);
  run.dtype = DType::kF32;
  run.bf16 = true;
  run.optim = config::Optimizer::kAdamW8bit;
  const int64_t in_blocks = bytes_of(unit_shares(arch::resolve(run, architecture))[1].gathered);
  run.bf16 = false;
  EXPECT_LT(in_blocks, bytes_of(unit_shares(arch::resolve(run, architecture))[1].gathered) / 2 + 4 * kNorm);
  EXPECT_GT(in_blocks, kLayer);
}

// A layer has 852,000 blocks of 256: of seven processes each has 121,715.
TEST(UnitShares, EndWithBlocksOfMoments) {
  const arch::Architecture architecture = llama_8b();
  config::RunConfig run = run_of(7);
  run.optim = config::Optimizer::kAdamW8bit;
  const arch::Run resolved = arch::resolve(run, architecture);
  const auto shares = unit_shares(resolved);
  constexpr int64_t kShare = int64_t{121'715} * 256 * 2;
  EXPECT_EQ(bytes_of(shares[1].gathered), 7 * kShare);
  EXPECT_EQ(bytes_of(shares[1].gradient), kShare);
  int64_t all = 0;
  for (const UnitShare& share : shares) all += bytes_of(share.gathered);
  EXPECT_EQ(value_of(filling_of_blocks(resolved).product), all - 2 * resolved.parameters.count());
  run.optim = config::Optimizer::kAdamW;
  EXPECT_EQ(value_of(filling_of_blocks(arch::resolve(run, architecture)).product), 0);
}

TEST(UnitShares, OfOneOfSeveralCopiesAreOfItsProcesses) {
  const arch::Architecture architecture = llama_8b();
  config::RunConfig run = run_of(6);
  run.dp_replicate_size = 3;
  const auto shares = unit_shares(arch::resolve(run, architecture));
  EXPECT_EQ(bytes_of(shares[1].gathered), kLayer);
  EXPECT_EQ(bytes_of(shares[1].reduced), kLayer + kLayer / 2);
  EXPECT_EQ(bytes_of(shares[1].gradient), kLayer / 2);
  // A third of the share from each of the two others.
  EXPECT_EQ(bytes_of(shares[1].summed), kLayer / 2 / 3 * 2);
  run.dp_replicate_size = 1;
  EXPECT_EQ(bytes_of(unit_shares(arch::resolve(run, architecture))[1].summed), 0);
}

TEST(UnitShares, OfAFrozenBaseReduceAdaptersAlone) {
  const arch::Architecture architecture = llama_8b();
  config::RunConfig run = run_of(2);
  run.method = config::Method::kLora;
  run.lora_r = 16;
  const auto shares = unit_shares(arch::resolve(run, architecture));
  const int64_t adapters = int64_t{4} * 16 * (4096 + 4096 + 4096 + 1024);  // of queries and values, in FP32
  EXPECT_EQ(bytes_of(shares[5].gathered), kLayer + adapters);
  EXPECT_EQ(bytes_of(shares[5].gradient), adapters / 2);
  EXPECT_EQ(bytes_of(shares[0].reduced), 0);
}

TEST(UnitShares, AreNoneWhereAProcessHasAll) {
  const arch::Architecture architecture = llama_8b();
  config::RunConfig run = run_of(1);
  EXPECT_TRUE(unit_shares(arch::resolve(run, architecture)).empty());
  run = run_of(2);
  run.strategy = config::Strategy::kDdp;
  EXPECT_TRUE(unit_shares(arch::resolve(run, architecture)).empty());
}

}  // namespace
}  // namespace fathom::plan::shares_test
