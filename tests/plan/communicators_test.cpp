// What NCCL is taken to keep of a GPU, on nodes of eight H100s.
#include "plan/communicators.h"

#include <gtest/gtest.h>

namespace fathom::plan::communicators_test {
namespace {

config::GpuSpec h100() {
  config::GpuSpec gpu;
  gpu.link_bytes_per_second = 450e9;
  gpu.gpus_per_node = 8;
  return gpu;
}

config::RunConfig on(int64_t processes, config::Strategy strategy, int64_t copies = 1) {
  config::RunConfig run;
  run.num_processes = processes;
  run.strategy = strategy;
  run.dp_replicate_size = copies;
  return run;
}

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(Communicators, OfOneProcessAreNone) {
  EXPECT_EQ(communicators_of(on(1, config::Strategy::kDdp), h100()).bytes(), 0);
}

// NVIDIA/nccl#1685: 3.28 GB more once each of 8 H100 has sent to every other.
TEST(Communicators, WithinANodeHaveChannelsToEachGpu) {
  for (const config::Strategy strategy : {config::Strategy::kDdp, config::Strategy::kFsdp}) {
    const Communicators all = communicators_of(on(8, strategy), h100());
    EXPECT_EQ(all.bytes(), kCommunicatorBytes + 7 * 32 * 14 * kMiB);
    EXPECT_NEAR(static_cast<double>(all.bytes() - kCommunicatorBytes), 3.28e9, 0.02e9);
    EXPECT_EQ(all.formula(), "1 communicator × 667.57 MiB + 7 GPUs × 32 channels × 14.00 MiB");
  }
  EXPECT_EQ(communicators_of(on(8, config::Strategy::kDdp), h100(), 2).each.front().channels, 2);
}

TEST(Communicators, BeyondANodeShareAPool) {
  const Communicators all = communicators_of(on(64, config::Strategy::kFsdp), h100());
  EXPECT_EQ(all.bytes(), kCommunicatorBytes + 7 * 2 * 14 * kMiB + 128 * kMiB);
}

TEST(Communicators, OfSeveralCopiesAreThree) {
  const Communicators three = communicators_of(on(64, config::Strategy::kFsdp, 8), h100());
  ASSERT_EQ(three.each.size(), 3U);
  EXPECT_EQ(three.bytes(), 3 * kCommunicatorBytes + 7 * 32 * 14 * kMiB + 128 * kMiB);
  // Four copies in each node, shared by two.
  const Communicators small = communicators_of(on(16, config::Strategy::kFsdp, 8), h100());
  EXPECT_EQ(small.each[1].peers, 1);
  EXPECT_EQ(small.each[2].peers, 3);
  EXPECT_TRUE(small.each[2].beyond);
}

TEST(Communicators, OverPciExpressHaveTwoChannels) {
  config::GpuSpec gpu = h100();
  gpu.link_bytes_per_second = 32e9;
  EXPECT_EQ(communicators_of(on(8, config::Strategy::kDdp), gpu).each.front().channels, 2);
}

}  // namespace
}  // namespace fathom::plan::communicators_test
