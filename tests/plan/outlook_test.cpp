// Time, cost, inference, host memory and whether it fits: each by an example that a person can follow.
#include "plan/outlook.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json_value.h"
#include "plan/fit.h"
#include "plan/inference.h"

namespace fathom::plan {
namespace {

config::GpuSpec round_gpu() {
  config::GpuSpec gpu;
  gpu.name = "round";
  gpu.memory_bytes_per_second = 1e12;
  gpu.fp32_flops = 10e12;
  gpu.bf16_flops = 100e12;
  return gpu;
}

arch::Architecture llama_2_7b() {
  arch::Architecture architecture;
  architecture.vocab_size = 32000;
  architecture.hidden_size = 4096;
  architecture.layers.assign(
      32,
      {.mixer =
           arch::Attention{.heads = 32, .key_value_heads = 32, .head_dim = 128, .rotary = arch::Rotary{.width = 128}},
       .feed_forward = {.width = 11008}});
  return architecture;
}

TEST(ExpectedTime, IsWorkOverAStatedShareOfThePeak) {
  config::RunConfig run;
  const Throughput wide = *throughput_of(round_gpu(), arch::resolve(run, llama_2_7b()));
  const StepArithmetic work{.forward = {6'500'000'000'000, 3'500'000'000'000, 800'000'000'000}};
  EXPECT_DOUBLE_EQ(expected_time(work, wide).computing().matrix_seconds, 6.5 / (10 * 0.65));
  EXPECT_DOUBLE_EQ(expected_time(work, wide).computing().attention_seconds, 1);
  EXPECT_DOUBLE_EQ(expected_time(work, wide).computing().memory_seconds, 1);
  run.bf16 = true;
  EXPECT_DOUBLE_EQ(
      expected_time(work, *throughput_of(round_gpu(), arch::resolve(run, llama_2_7b()))).computing().matrix_seconds,
      0.1);
  run.attn_implementation = config::Attention::kMath;
  EXPECT_EQ(throughput_of(round_gpu(), arch::resolve(run, llama_2_7b()))->attention_efficiency, kMatrixEfficiency);
}

TEST(ExpectedTime, IsNotGuessedForAGpuWithoutFigures) {
  config::GpuSpec gpu = round_gpu();
  gpu.bf16_flops = 0;
  config::RunConfig run;
  EXPECT_TRUE(throughput_of(gpu, arch::resolve(run, llama_2_7b())));
  run.bf16 = true;
  EXPECT_FALSE(throughput_of(gpu, arch::resolve(run, llama_2_7b())));
  gpu.memory_bytes_per_second = 0;
  EXPECT_FALSE(throughput_of(gpu, arch::resolve({}, llama_2_7b())));
}

TEST(ExpectedRun, AddsItsSteps) {
  arch::Architecture architecture = llama_2_7b();
  architecture.layers.resize(1);
  const Throughput throughput = *throughput_of(round_gpu(), arch::resolve({}, architecture));
  const auto seconds = [&](const schedule::StepShape& step) {
    return expected_time(estimate_arithmetic(arch::resolve({}, architecture), step), throughput).seconds();
  };
  const ExpectedRun run =
      expected_run(arch::resolve({}, architecture), {{{2, 8}}, {{1, 5}, {2, 8}}, {{2, 8}}}, throughput);
  EXPECT_EQ(run.steps, 3);
  EXPECT_EQ(run.tokens, 16 + 21 + 16);
  EXPECT_DOUBLE_EQ(run.seconds, 2 * seconds({{2, 8}}) + seconds({{1, 5}, {2, 8}}));
}

// Touvron et al. 2023, arXiv 2307.09288, table 2; the price is that of a machine with eight.
TEST(Cost, OfLlama2) {
  const Cost cost = *cost_of({std::nullopt, 184'320, 8, 33}, std::nullopt, 0);
  EXPECT_EQ(cost.hours, 23'040);
  EXPECT_EQ(cost.dollars(), 760'320);
}

TEST(Cost, OfTokensAtTheListedPrice) {
  const Cost cost = *cost_of({7.2e9, std::nullopt, 4, std::nullopt}, 1000, 2);
  EXPECT_EQ(cost.gpu_hours, 2000);
  EXPECT_EQ(cost.hours, 500);
  EXPECT_EQ(cost.dollars(), 4000);
  EXPECT_FALSE(cost_of({7.2e9, std::nullopt, 1, std::nullopt}, std::nullopt, 2)) << "no speed is known";
  EXPECT_FALSE(cost_of({}, 1000, 2)) << "nothing was asked";
  EXPECT_EQ(cost_of({1e9, std::nullopt, 1, std::nullopt}, 1000, 0)->price_per_hour, 0);
}

TEST(Inference, TakesWeightsAndACache) {
  const Inference inference = estimate_inference(llama_2_7b(), {1, 4}, {1000});
  EXPECT_EQ(inference.parameters, 6'738'415'616);
  EXPECT_EQ(inference.weights[0].bytes, 26'953'662'464);
  EXPECT_EQ(inference.weights[3].bytes, 3'369'207'808);
  EXPECT_EQ(inference.cache_bytes_per_token, 2 * 32 * 4096 * 2);
  EXPECT_EQ(inference.caches[1].bytes, 4 * 1000 * int64_t{524'288});
  EXPECT_THROW(estimate_inference(llama_2_7b(), {int64_t{1} << 40}, {int64_t{1} << 40}), Error);
}

// Keys and values in six of sixteen layers; in the others the last two of 1024 channels, whatever the length.
TEST(Inference, CountsWhatConvolutionsKeepOnceForEachText) {
  const auto file = FATHOM_SOURCE_DIR "/configs/models/lfm2-350m/config.json";
  const Inference inference = estimate_inference(arch::parse_architecture(read_json(file), file), {3}, {1000});
  EXPECT_EQ(inference.cache_bytes_per_token, 6 * 2 * 512 * 2);
  EXPECT_EQ(inference.caches[0].bytes, 3 * (1000 * 12'288 + 10 * 2 * 1024 * 2));
}

TEST(Inference, LoadsABillionParametersInFourTwoOneAndHalfGigabytes) {
  std::vector<int64_t> bytes;
  for (const WeightFormat& format : kWeightFormats) bytes.push_back(weight_bytes(1'000'000'000, format));
  EXPECT_EQ(bytes, (std::vector<int64_t>{4'000'000'000, 2'000'000'000, 1'000'000'000, 500'000'000}));
}

Plan plan_on(config::Device device) {
  Plan plan;
  plan.target.device = device;
  plan.dry_run.phases[static_cast<int>(memory::Phase::kLoad)].peak = 1000;
  plan.dry_run.phases[static_cast<int>(memory::Phase::kSave)].peak = 900;
  plan.dry_run.peak = 5000;
  return plan;
}

TEST(HostMemory, HoldsTheTensorsOfACpu) {
  const HostMemory host = estimate_host(arch::resolve({}, llama_2_7b()), plan_on(config::Device::kCpu), 50, 70);
  EXPECT_EQ(host.load_peak, 1050);
  EXPECT_EQ(host.train_peak, 5050);
  EXPECT_EQ(host.save_peak, 950) << "written from where it lies";
  EXPECT_EQ(host.mapped_files, 70);
}

TEST(HostMemory, HoldsWhatGoesToAGpuAndComesBack) {
  config::RunConfig run;
  run.method = config::Method::kLora;
  arch::Architecture architecture = llama_2_7b();
  architecture.dtype = DType::kF16;
  EXPECT_EQ(estimate_host(arch::resolve(run, architecture), plan_on(config::Device::kCuda), 50, 70).load_peak, 50);
  Plan plan = plan_on(config::Device::kCuda);
  constexpr int64_t kLargest = 4096 * 8, kAdapters = 32 * 2 * 2 * kLargest;  // A and B, of queries and values
  plan.dry_run.phases[static_cast<int>(memory::Phase::kSave)].end[memory::Component::kOptimizerStates] = 2400;
  EXPECT_EQ(estimate_host(arch::resolve(run, architecture), plan, 50, 70).save_peak, 50 + kAdapters * 4 + 2400)
      << "all that is saved is copied";
  run.save_strategy = config::Cadence::kNo;
  EXPECT_EQ(estimate_host(arch::resolve(run, architecture), plan, 50, 70).save_peak, 50 + kLargest * 4)
      << "but where a signal asks for it";
  run.load_best_model_at_end = true;
  EXPECT_EQ(estimate_host(arch::resolve(run, architecture), plan, 50, 70).save_peak, 50 + kAdapters * 4 + 2400)
      << "the best is saved, too";
  run.save_in_background = false;
  EXPECT_EQ(estimate_host(arch::resolve(run, architecture), plan, 50, 70).save_peak, 50 + kLargest * 4)
      << "the largest tensor";
  run.dtype = DType::kF32;  // converted on the host, tensor by tensor
  EXPECT_EQ(estimate_host(arch::resolve(run, architecture), plan_on(config::Device::kCuda), 50, 70).load_peak,
            50 + int64_t{32000} * 4096 * 4);
}

TEST(Fit, IsNotClaimedNearTheLimit) {
  constexpr int64_t kGib = int64_t{1} << 30;
  Plan plan = plan_on(config::Device::kCuda);
  plan.target.capacity_bytes = 80 * kGib;
  plan.gpu = GpuBytes{};
  plan.gpu->reserved_range = {70 * kGib, 78 * kGib};
  EXPECT_EQ(fit_of(plan), Fit::kFits) << "2 GiB are left";
  plan.gpu->reserved_range.highest += 1;
  EXPECT_EQ(fit_of(plan), Fit::kUncertain);
  plan.gpu->overhead = kGib;
  EXPECT_EQ(fit_of(plan), Fit::kFits) << "calibrated, the driver's share is known";
  plan.gpu->reserved_range.highest = 79 * kGib + 1;
  EXPECT_EQ(fit_of(plan), Fit::kUncertain);
  plan.gpu->fits = false;
  plan.gpu->missing_bytes = 1;
  EXPECT_EQ(fit_of(plan), Fit::kDoesNotFit);
}

TEST(Fit, OfACpuCountsWhatTheProcessTakesBesideTensors) {
  Plan plan = plan_on(config::Device::kCpu);
  EXPECT_EQ(fit_of(plan), Fit::kFits) << "the capacity is not known";
  const int64_t most = most_resident_growth(plan);
  EXPECT_GT(most, 5000 + 5000 / 8);
  plan.target.capacity_bytes = most;
  EXPECT_EQ(fit_of(plan), Fit::kFits);
  plan.target.capacity_bytes = most - 1;
  EXPECT_EQ(fit_of(plan), Fit::kUncertain);
  plan.target.capacity_bytes = 5000;
  EXPECT_EQ(fit_of(plan), Fit::kUncertain);
  plan.target.within_budget = true;
  EXPECT_EQ(fit_of(plan), Fit::kFits) << "a budget bounds the allocator alone";
  plan.target.capacity_bytes = 4999;
  EXPECT_EQ(fit_of(plan), Fit::kDoesNotFit);
}

TEST(Fit, FindsTheTensorsThatStayWithinAGrowth) {
  Plan plan = plan_on(config::Device::kCpu);
  plan.dry_run.peak_with_scratch = 0;
  for (const int64_t growth : {int64_t{1} << 30, (int64_t{7} << 30) + 12345}) {
    plan.dry_run.peak = most_tensors_within(growth);
    EXPECT_LE(most_resident_growth(plan), growth);
    EXPECT_GE(most_resident_growth(plan), growth - 16);
  }
  EXPECT_EQ(most_tensors_within(1000), 0);
}

}  // namespace
}  // namespace fathom::plan
