// The analytic estimate against dry runs, over a drawn sample, for the CPU and for three generations of GPUs: 3 % of
// the peak, half a percent in the median, of models of 100 million parameters or more and of small ones.
#include "tests/play/analytic_sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "arch/precision.h"
#include "base/json_value.h"
#include "memory/memory_json.h"
#include "phantom/device.h"
#include "phantom_gpu/child.h"
#include "plan/estimate/analytic.h"
#include "play/make_plan.h"
#include "tests/play/matrix_run.h"
#include "tests/seed.h"

namespace fathom::play::testing::analytic_sample_test {
namespace {

using memory::Component;

constexpr char kProbe[] = FATHOM_BINARY_DIR "/tests/phantom_gpu/gpu_probe/phantom_gpu_probe";
constexpr char kCudaKernels[] = FATHOM_BINARY_DIR "/lib/libfathom_cuda_kernels.so";
constexpr size_t kCount = 20;
constexpr double kWorst = 0.03, kMedian = 0.005;
constexpr int64_t kLarge = 100'000'000;  // parameters

double relative(int64_t figure, int64_t reference) {
  return static_cast<double>(figure - reference) / static_cast<double>(std::max<int64_t>(1, reference));
}

struct Error {
  std::string run;
  bool large = false;
  double peak = 0;
};

Error error_of(const plan::testing::MatrixRun& run, const plan::Target& target, const memory::Memory& dry_run) {
  const plan::Analytic analytic =
      plan::estimate_analytic(arch::resolve(run.config, run.architecture), target, workload_of(run));
  for (const Component component : {Component::kWeights, Component::kOptimizerStates, Component::kGradients}) {
    EXPECT_EQ(analytic.maximum[component], dry_run.maximum[component]) << run.name << component_name(component);
  }
  return {run.name, arch::parameter_count(run.architecture) >= kLarge, relative(analytic.peak, dry_run.peak)};
}

void expect_close(std::vector<Error> errors) {
  std::stable_sort(errors.begin(), errors.end(),
                   [](const Error& a, const Error& b) { return std::abs(a.peak) > std::abs(b.peak); });
  for (const bool large : {true, false}) {
    std::vector<Error> some;
    std::copy_if(errors.begin(), errors.end(), std::back_inserter(some),
                 [&](const Error& e) { return e.large == large; });
    ASSERT_FALSE(some.empty());
    const double median = std::abs(some[some.size() / 2].peak);
    std::cout << some.size() << (large ? " large" : " small") << " runs, median " << 100 * median << " %; the worst:\n";
    for (size_t i = 0; i < std::min<size_t>(3, some.size()); ++i) {
      std::cout << "  " << some[i].run << ": peak off by " << 100 * some[i].peak << " %\n";
    }
    for (const Error& error : some) EXPECT_LE(std::abs(error.peak), kWorst) << error.run;
    EXPECT_LE(median, kMedian);
  }
}

TEST(AnalyticSample, FollowsTheDryRunOnTheCpu) {
  std::vector<Error> errors;
  for (const plan::testing::MatrixRun& run : analytic_sample(fathom::testing::seed(), kCount)) {
    plan::Target target = cpu_target();
    target.threads = run.config.num_threads;
    target.attention_kernel = attention_kernel(arch::resolve(run.config, run.architecture), phantom::device());
    errors.push_back(error_of(run, target, predict(run)));
  }
  expect_close(std::move(errors));
}

TEST(AnalyticSample, FollowsTheDryRunOfPreferences) {
  std::vector<Error> errors;
  for (const plan::testing::MatrixRun& plain : analytic_sample(fathom::testing::seed(), kCount)) {
    const auto run = plan::testing::of_preferences(plain);
    if (!run) continue;
    plan::Target target = cpu_target();
    target.threads = run->config.num_threads;
    target.attention_kernel = attention_kernel(arch::resolve(run->config, run->architecture), phantom::device());
    errors.push_back(error_of(*run, target, predict(*run)));
  }
  expect_close(std::move(errors));
}

// The runs of the matrix that can, with their updates in the backward pass: what there is of gradients then.
TEST(AnalyticSample, KnowsUpdatesInTheBackwardPass) {
  for (plan::testing::MatrixRun& run : plan::testing::sample_of_matrix(/*seed=*/5, 120)) {
    const bool in_fp16 = arch::resolve(run.config, run.architecture).precision.computed == DType::kF16;
    if (in_fp16 || run.config.gradient_accumulation_steps > 1) continue;
    run.config.optimizer_in_backward = true;
    run.config.max_grad_norm = 0;
    plan::Target target = cpu_target();
    target.threads = run.config.num_threads;
    target.attention_kernel = attention_kernel(arch::resolve(run.config, run.architecture), phantom::device());
    error_of(run, target, predict(run));
  }
}

struct Gpu {
  const char* test;
  const char* compute_capability;
  int multiprocessors;
  bool cuda_kernels = false;
};
void PrintTo(const Gpu& gpu, std::ostream* out) { *out << gpu.test; }

class AnalyticSampleOnGpu : public ::testing::TestWithParam<Gpu> {};

TEST_P(AnalyticSampleOnGpu, FollowsTheDryRun) {
  const Gpu& gpu = GetParam();
  if (gpu.cuda_kernels && !std::filesystem::exists(kCudaKernels)) GTEST_SKIP() << "built without CUDA kernels";
  const uint64_t seed = fathom::testing::seed();
  const Json request = {{"scenario", "predictions"},
                        {"cuda_kernels", gpu.cuda_kernels},
                        {"seed", seed},
                        {"count", kCount},
                        {"gpu",
                         {{"name", "a GPU"},
                          {"compute_capability", gpu.compute_capability},
                          {"multiprocessors", gpu.multiprocessors},
                          {"memory_bytes", int64_t{80} << 30},
                          {"unlimited", true},
                          {"placement", 0}}}};
  const Json rows = phantom_gpu::run_child(kProbe, {}, request, std::chrono::minutes(5));
  std::vector<plan::testing::MatrixRun> runs = analytic_sample(seed, kCount);
  for (plan::testing::MatrixRun& run : runs) run.config.cuda_kernels = gpu.cuda_kernels;
  ASSERT_EQ(rows.size(), runs.size());
  std::vector<Error> errors;
  for (size_t i = 0; i < runs.size(); ++i) {
    ASSERT_EQ(rows[i].at("name"), runs[i].name);
    plan::Target target;
    target.device = config::Device::kCuda;
    target.compute_capability = gpu.compute_capability;
    target.multiprocessors = gpu.multiprocessors;
    target.attention_kernel = rows[i].at("attention_kernel").get<std::string>();
    errors.push_back(error_of(runs[i], target, memory::memory_from_json(rows[i].at("memory"))));
  }
  expect_close(std::move(errors));
}

INSTANTIATE_TEST_SUITE_P(Generations, AnalyticSampleOnGpu,
                         ::testing::Values(Gpu{"compute_8_0", "8.0", 108}, Gpu{"compute_9_0", "9.0", 132},
                                           Gpu{"compute_12_0", "12.0", 170},
                                           Gpu{"compute_9_0_by_own_kernels", "9.0", 132, true}),
                         [](const auto& each) { return std::string(each.param.test); });

}  // namespace
}  // namespace fathom::play::testing::analytic_sample_test
