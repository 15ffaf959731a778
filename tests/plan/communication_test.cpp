// What ranks send each other, by numbers that a person can check: two layers, so that four units lie in
//   embeddings             1,000 × 64                     × 4 bytes = 256,000
//   each layer             4 × 64² + 3 × 64 × 128 + 2 × 64, × 4     = 164,352
//   the last norm, the head                       64 + 64,000, × 4  = 256,256
// which are 840,960 bytes in all.
#include "plan/time/communication.h"

#include <gtest/gtest.h>

#include "plan/outlook.h"

namespace fathom::plan::communication_test {
namespace {

constexpr int64_t kEmbeddings = 256'000, kLayer = 164'352, kLast = 256'256, kAll = 840'960;
constexpr double kLink = 1e9, kNetwork = 1e8;

arch::Architecture two_layers() {
  arch::Architecture architecture;
  architecture.vocab_size = 1000;
  architecture.hidden_size = 64;
  architecture.layers.assign(
      2,
      {.mixer = arch::Attention{.heads = 4, .key_value_heads = 4, .head_dim = 16, .rotary = arch::Rotary{.width = 16}},
       .feed_forward = {.width = 128}});
  return architecture;
}

config::RunConfig of_processes(int64_t processes, config::Strategy strategy = config::Strategy::kFsdp) {
  config::RunConfig run;
  run.num_processes = processes;
  run.strategy = strategy;
  return run;
}

// Four GPUs a node; operations take so long that all that can be hidden is, or no time at all.
Throughput throughput(bool slow) {
  const double per_second = slow ? 1 : 1e30;
  Throughput throughput;
  throughput.matrix_flops_per_second = throughput.attention_flops_per_second = throughput.bytes_per_second = per_second;
  throughput.interconnect = Interconnect{kLink, kNetwork, 4};
  return throughput;
}

Communication of(const config::RunConfig& run, size_t micro_batches = 1, bool slow = false) {
  const schedule::StepShape step(micro_batches, schedule::whole_batch(1, 8));
  return communication_of(arch::resolve(run, two_layers()), step, throughput(slow));
}

double in_node(int64_t bytes) { return 8.4e-6 + 3 * 3.4e-6 + static_cast<double>(bytes) / (0.8 * kLink); }

TEST(Communication, OfOneProcessIsNone) {
  EXPECT_EQ(of(of_processes(1)).traffic.bytes(), 0);
  EXPECT_EQ(of(of_processes(1)).seconds, 0);
}

// Each of four sends three quarters. The last layer and the head stay for the backward pass, which does not read the
// embeddings: it gathers the first layer again.
TEST(Communication, GathersUnitsAndReducesTheirGradients) {
  const Traffic traffic = of(of_processes(4)).traffic;
  EXPECT_EQ(traffic.gathered, (kAll + kLayer) * 3 / 4);
  EXPECT_EQ(traffic.reduced, kAll * 3 / 4);
  EXPECT_EQ(traffic.summed, 0);
  EXPECT_EQ(traffic.over_network, 0);
  EXPECT_EQ(traffic.over_links, traffic.bytes());
  config::RunConfig keeps = of_processes(4);
  keeps.reshard_after_forward = false;
  EXPECT_EQ(of(keeps).traffic.gathered, kAll * 3 / 4);
  EXPECT_EQ(of(keeps).traffic.reduced, traffic.reduced);
}

TEST(Communication, IsOfEveryMicroBatchButForSumsOverCopies) {
  const Traffic once = of(of_processes(4)).traffic, thrice = of(of_processes(4), 3).traffic;
  EXPECT_EQ(thrice.gathered, 3 * once.gathered);
  EXPECT_EQ(thrice.reduced, 3 * once.reduced);
  const config::RunConfig ddp = of_processes(4, config::Strategy::kDdp);
  EXPECT_EQ(of(ddp, 3).traffic.summed, of(ddp).traffic.summed);
}

// To the rank that adds a piece up, and back: three quarters each.
TEST(Communication, OfWholeModelsIsTheSumOfGradients) {
  const Traffic traffic = of(of_processes(4, config::Strategy::kDdp)).traffic;
  EXPECT_EQ(traffic.gathered + traffic.reduced, 0);
  EXPECT_EQ(traffic.summed, 2 * kAll * 3 / 4);
  EXPECT_EQ(traffic.over_links, traffic.summed);
}

// Two nodes of four. Around a ring a node sends what a rank passes on, with four network cards; straight to four of
// seven others each rank sends an eighth by itself.
TEST(Communication, BetweenNodesGoesOverTheNetwork) {
  const Communication communication = of(of_processes(8));
  const int64_t gathered = (kAll + kLayer) * 7 / 8, reduced = kAll * 7 / 8;
  EXPECT_EQ(communication.traffic.gathered, gathered);
  EXPECT_EQ(communication.traffic.reduced, reduced);
  EXPECT_EQ(communication.traffic.over_network, gathered / 4 + kAll * 4 / 8);
  EXPECT_EQ(communication.traffic.over_links, communication.traffic.bytes() - communication.traffic.over_network);
  // Nine collectives, five gathers and four reductions, all bound by the network.
  const double starts = 9 * (8.4e-6 + 6 * 3.4e-6 + 9.6e-6);
  EXPECT_NEAR(communication.seconds,
              starts + static_cast<double>(communication.traffic.over_network) / (0.8 * kNetwork), 1e-9);
}

// A copy in each node: the network carries sums of quarters alone, half of each quarter there and half back.
TEST(Communication, OfCopiesInNodesSumsSharesOverTheNetwork) {
  config::RunConfig run = of_processes(8);
  run.dp_replicate_size = 2;
  const Traffic traffic = of(run).traffic;
  EXPECT_EQ(traffic.gathered, (kAll + kLayer) * 3 / 4);
  EXPECT_EQ(traffic.reduced, kAll * 3 / 4);
  EXPECT_EQ(traffic.summed, kAll / 4);
  EXPECT_EQ(traffic.over_network, traffic.summed);
  EXPECT_EQ(of(run, 5).traffic.summed, traffic.summed) << "once a step";
  run.num_processes = 4;  // copies of two ranks in one node
  EXPECT_EQ(of(run).traffic.over_network, 0);
}

TEST(Communication, OfFrozenModelsReducesWhatIsTrained) {
  config::RunConfig run = of_processes(4);
  run.method = config::Method::kLora;
  run.lora_r = 4;
  const int64_t adapters = int64_t{2} * 4 * (64 + 64) * 4;  // of queries and values, in FP32: 4,096 bytes a layer
  const Traffic traffic = of(run).traffic;
  EXPECT_EQ(traffic.gathered, (kAll + 2 * adapters + kLayer + adapters) * 3 / 4);
  EXPECT_EQ(traffic.reduced, 2 * adapters * 3 / 4);
}

TEST(Communication, IsHiddenBehindComputingButForTheFirstGatherAndTheLastSum) {
  const Communication bare = of(of_processes(4)), hidden = of(of_processes(4), 1, /*slow=*/true);
  EXPECT_DOUBLE_EQ(bare.exposed, bare.seconds) << "nothing computes";
  EXPECT_EQ(bare.hidden(), 0);
  EXPECT_DOUBLE_EQ(hidden.seconds, bare.seconds);
  EXPECT_DOUBLE_EQ(hidden.exposed, 2 * in_node(kEmbeddings * 3 / 4));
  EXPECT_DOUBLE_EQ(of(of_processes(4), 3, /*slow=*/true).exposed, 3 * hidden.exposed);
  const Communication ddp = of(of_processes(4, config::Strategy::kDdp), 2, /*slow=*/true);
  EXPECT_DOUBLE_EQ(ddp.exposed, 2 * in_node(kEmbeddings * 3 / 4)) << "there and back";
  EXPECT_DOUBLE_EQ(ddp.seconds,
                   2 * in_node(kEmbeddings * 3 / 4) + 4 * in_node(kLayer * 3 / 4) + 2 * in_node(kLast * 3 / 4));
}

TEST(Communication, MakesAStepLonger) {
  const config::RunConfig run = of_processes(4);
  const schedule::StepShape step{schedule::whole_batch(1, 8)};
  const StepArithmetic arithmetic = estimate_arithmetic(arch::resolve(run, two_layers()), step);
  const Throughput fast = throughput(/*slow=*/false);
  const ExpectedTime time = expected_step_time(arch::resolve(run, two_layers()), step, arithmetic, fast);
  EXPECT_DOUBLE_EQ(time.exposed_seconds, of(run).exposed);
  EXPECT_DOUBLE_EQ(time.seconds(), expected_time(arithmetic, fast).seconds() + time.exposed_seconds);
  EXPECT_DOUBLE_EQ(expected_run(arch::resolve(run, two_layers()), {step, step}, fast).seconds, 2 * time.seconds());
  Throughput alone = fast;
  alone.interconnect.reset();
  EXPECT_EQ(expected_step_time(arch::resolve(run, two_layers()), step, arithmetic, alone).exposed_seconds, 0);
}

TEST(Communication, IsReckonedWhereTheListKnowsTheWay) {
  config::GpuSpec gpu;
  gpu.fp32_flops = gpu.memory_bytes_per_second = 1e12;
  const auto knows = [&](int64_t processes) {
    return throughput_of(gpu, arch::resolve(of_processes(processes), two_layers()))->interconnect.has_value();
  };
  EXPECT_FALSE(knows(2));
  gpu.link_bytes_per_second = kLink;
  gpu.gpus_per_node = 4;
  EXPECT_TRUE(knows(4));
  EXPECT_FALSE(knows(1)) << "which sends nothing";
  EXPECT_FALSE(knows(8)) << "between nodes";
  gpu.network_bytes_per_second = kNetwork;
  EXPECT_TRUE(knows(8));
}

}  // namespace
}  // namespace fathom::plan::communication_test
