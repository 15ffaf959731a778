// Of several GPUs: what each holds of the model is searched with everything else, by memory and by communication.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "plan/advice/remedies.h"
#include "plan/advice/search.h"
#include "plan/estimate/analytic.h"
#include "plan/time/communication.h"
#include "tests/plan/full_batches.h"
#include "tests/plan/llama_8b.h"

namespace fathom::plan::search_strategy_test {
namespace {

using config::RunConfig;
using ::testing::Contains;
using testing::full_batches;
using testing::llama_8b;
using ::testing::Not;

constexpr int64_t kGpusPerNode = 8;

Target h100() {
  Target target;
  target.device = config::Device::kCuda;
  target.compute_capability = "9.0";
  target.capacity_bytes = 79 * kGiB;
  target.gpus_per_node = kGpusPerNode;
  return target;
}

config::GpuSpec listed(double network) {
  config::GpuSpec gpu;
  gpu.memory_bytes_per_second = 3350e9;
  gpu.fp32_flops = 66.9e12;
  gpu.tf32_flops = 494.7e12;
  gpu.bf16_flops = 989.4e12;
  gpu.link_bytes_per_second = 450e9;
  gpu.network_bytes_per_second = network;
  gpu.gpus_per_node = kGpusPerNode;
  return gpu;
}

RunConfig run_of(int64_t gpus) {
  RunConfig run;
  run.model_name_or_path = "m";
  run.max_length = 2048;
  run.per_device_train_batch_size = 2;
  run.gradient_accumulation_steps = 1;
  run.num_processes = gpus;
  return run;
}

Advice advice_for(const arch::Architecture& architecture, const RunConfig& run, double network = 50e9) {
  Question question{arch::resolve(run, architecture), h100(), full_batches, {}, {}, {}, {}};
  question.prove = [&](const RunConfig& config) {
    const arch::Run tried = arch::resolve(config, architecture);
    const Target target = target_of(h100(), tried);
    const int64_t need = estimate_analytic(tried, target, full_batches(tried)).peak;
    return Proof{need, need <= target.capacity_bytes, false};
  };
  question.throughput = [&](const arch::Run& tried) { return throughput_of(listed(network), tried); };
  return least_time_that_fits(question, {"method"});
}

TEST(SearchStrategy, SharesAModelThatNoGpuHolds) {
  const arch::Architecture architecture = llama_8b();
  const Advice advice = advice_for(architecture, run_of(8));
  ASSERT_TRUE(advice.best);
  EXPECT_EQ(advice.best->run.strategy, config::Strategy::kFsdp);
  EXPECT_EQ(advice.best->run.num_processes, 8);
  EXPECT_EQ(advice.best->run.optim, run_of(8).optim) << "as it is, where the run fits with it";
  EXPECT_GT(*advice.best->seconds, advice.best->exposed_seconds);
  EXPECT_GT(advice.best->exposed_seconds, 0);
}

// Adapters are few: whole models need not wait for each other's layers.
TEST(SearchStrategy, LeavesAdaptersOnWholeModels) {
  RunConfig run = run_of(8);
  run.method = config::Method::kLora;
  const arch::Architecture architecture = llama_8b();
  const Advice advice = advice_for(architecture, run);
  ASSERT_TRUE(advice.best);
  EXPECT_EQ(advice.best->run.strategy, config::Strategy::kDdp);
}

TEST(SearchStrategy, KeepsCopiesInNodesWhereTheNetworkIsSlow) {
  const arch::Architecture architecture = llama_8b();
  const Advice slow = advice_for(architecture, run_of(64), /*network=*/5e9);
  ASSERT_TRUE(slow.best);
  EXPECT_THAT(slow.best->techniques, Contains("HSDP"));
  EXPECT_EQ(slow.best->run.dp_replicate_size, 8);
  EXPECT_THAT(advice_for(architecture, run_of(8)).best->techniques, Not(Contains("HSDP"))) << "one node";
}

TEST(Techniques, OfSeveralProcessesAreWhatEachHolds) {
  const auto names_for = [](const RunConfig& run) {
    std::vector<std::string> names;
    for (const Technique& row : techniques(arch::resolve(run, llama_8b()), h100())) {
      if (row.group == "strategy" && row.apply(run)) names.push_back(row.name);
    }
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names_for(run_of(1)), Names());
  EXPECT_EQ(names_for(run_of(8)), (Names{"DDP", "FSDP", "FSDP, layers kept"}));
  EXPECT_EQ(names_for(run_of(16)), (Names{"DDP", "FSDP", "FSDP, layers kept", "HSDP"}));
  EXPECT_EQ(names_for(run_of(12)).size(), 3U) << "nodes that are not full hold no copies alike";
  RunConfig run = run_of(16);
  run.optim = config::Optimizer::kAdamW8bit;
  EXPECT_EQ(names_for(run).size(), 4U);
  run.optim = config::Optimizer::kAdafactor;
  EXPECT_EQ(names_for(run), Names{"DDP"}) << "whose means are of whole rows and columns";
}

}  // namespace
}  // namespace fathom::plan::search_strategy_test
