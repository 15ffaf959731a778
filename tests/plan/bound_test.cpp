// What fits, and what is said of a plan that does not.
#include "plan/bound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/estimate/analytic.h"

namespace fathom::plan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Plan plan_on_cpu(int64_t peak, int64_t with_scratch, int64_t capacity) {
  Plan plan;
  plan.target.name = "CPU";
  plan.target.capacity_bytes = capacity;
  plan.target.attention_kernel = "flash attention";
  plan.dry_run.peak = peak;
  plan.dry_run.peak_with_scratch = with_scratch;
  plan.dry_run.at_peak[memory::Component::kActivations] = peak - 100;
  plan.dry_run.at_peak[memory::Component::kWeights] = 100;
  return plan;
}

TEST(Bound, OnACpuKernelScratchCounts) {
  EXPECT_EQ(missing_bytes(plan_on_cpu(1000, 1200, 1200)), 0);
  EXPECT_GT(missing_bytes(plan_on_cpu(1000, 1200, 1199)), 0);
  EXPECT_EQ(missing_bytes(plan_on_cpu(1000, 1200, 900)), 300);
  EXPECT_EQ(needed_bytes(plan_on_cpu(1000, 0, 1)), 1000) << "a dry run without scratch";
  EXPECT_EQ(missing_bytes(plan_on_cpu(1000, 1200, 0)), 0) << "capacity unknown";
}

TEST(Bound, OnAGpuTheAllocatorDecides) {
  Plan plan = plan_on_cpu(1000, 0, 4096);
  plan.target.device = config::Device::kCuda;
  plan.gpu.emplace();
  plan.gpu->reserved = 8192;
  plan.gpu->reserved_range = {2048, 8192};
  EXPECT_EQ(missing_bytes(plan), 0) << "it ended within the capacity, with whatever it had to give back on the way";
  EXPECT_EQ(needed_bytes(plan), 2048);
  plan.gpu->fits = false;
  plan.gpu->missing_bytes = 1;
  EXPECT_GT(missing_bytes(plan), 0);
  EXPECT_EQ(missing_bytes(plan), 1);
}

TEST(Bound, TheSmallerOfBudgetAndCapacityBounds) {
  Target target;
  target.capacity_bytes = 100;
  bound_by_budget(target, 0);
  bound_by_budget(target, 101);
  EXPECT_EQ(target.capacity_bytes, 100);
  EXPECT_FALSE(target.within_budget);
  bound_by_budget(target, 99);
  EXPECT_EQ(target.capacity_bytes, 99);
  EXPECT_TRUE(target.within_budget);
  Target unknown;
  bound_by_budget(unknown, 5);
  EXPECT_EQ(unknown.capacity_bytes, 5);
  EXPECT_TRUE(unknown.within_budget);
}

TEST(Bound, ARefusalNamesWhatIsToBlameAndWhatHelps) {
  arch::Architecture architecture;
  architecture.family = "LlamaForCausalLM";
  architecture.vocab_size = 1000;
  architecture.hidden_size = 64;
  architecture.layers.assign(
      4,
      {.mixer = arch::Attention{.heads = 4, .key_value_heads = 4, .head_dim = 16, .rotary = arch::Rotary{.width = 16}},
       .feed_forward = {.width = 256}});
  const config::RunConfig run;
  Plan plan = plan_on_cpu(int64_t{50} << 20, int64_t{51} << 20, int64_t{50} << 20);
  plan.workload.steps = {{{8, 512}}};
  plan.workload.capacity_tokens = 8 * 512;
  bound_by_budget(plan.target, int64_t{48} << 20);
  EXPECT_THAT(
      describe_misfit(plan, arch::resolve(run, architecture)),
      AllOf(HasSubstr("needs 51.00 MiB, memory_budget is 48.00 MiB, and 3.00 MiB are missing (3,145,728 bytes)"),
            HasSubstr("the largest part is activations: 50.00 MiB (100 %)"),
            HasSubstr("\n  gradient_checkpointing=true "), HasSubstr(", enough by itself: ")));
  bound_by_budget(plan.target, 1);
  plan.target.within_budget = false;
  EXPECT_THAT(describe_misfit(plan, arch::resolve(run, architecture)), HasSubstr("this machine has 1 B free"));
}

}  // namespace
}  // namespace fathom::plan
