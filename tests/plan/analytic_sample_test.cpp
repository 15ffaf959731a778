// The closed formulas against dry runs, over a drawn sample, for the CPU and for three generations of
// GPUs: 2 % of the peak and 5 % of every component above 5 % of it, in 95 % of the runs.
#include "tests/plan/analytic_sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "ledger/memory_json.h"
#include "phantom/child.h"
#include "phantom/device.h"
#include "plan/analytic.h"
#include "plan/make_plan.h"
#include "tests/plan/matrix_run.h"
#include "tests/seed.h"

namespace fathom::plan::testing {
namespace {

using ledger::Component;

constexpr char kProbe[] = FATHOM_BINARY_DIR "/tests/phantom/gpu_probe/phantom_gpu_probe";
constexpr char kCudaKernels[] = FATHOM_BINARY_DIR "/lib/libfathom_cuda_kernels.so";
constexpr size_t kCount = 20;
constexpr double kOfThePeak = 0.02, kOfAComponent = 0.05, kShare = 0.95;
// How far the peaks of the few that are not within may be off. Of two moments of nearly equal height the formulas may
// take the other one for the peak, and then its components.
constexpr double kWorstPeak = 0.06;

double relative(int64_t figure, int64_t reference) {
  return static_cast<double>(figure - reference) / static_cast<double>(std::max<int64_t>(1, reference));
}

// Of one run, in units of what is allowed: 1 is just within.
struct Error {
  std::string run;
  double peak = 0, worst = 0;
  std::string what;  // the figure that is worst
};

Error error_of(const MatrixRun& run, const Target& target, const ledger::Memory& dry_run) {
  const Analytic analytic = estimate_analytic(run.shape, run.config, target, workload_of(run));
  Error error = {run.name, relative(analytic.peak, dry_run.peak), 0, "peak"};
  error.worst = std::abs(error.peak) / kOfThePeak;
  for (const Component component : ledger::kComponents) {
    const int64_t exact = dry_run.at_peak[component];
    if (exact * 20 < dry_run.peak) continue;
    const double off = std::abs(relative(analytic.at_peak[component], exact)) / kOfAComponent;
    if (off <= error.worst) continue;
    error.worst = off;
    error.what = component_name(component);
  }
  return error;
}

void expect_close(std::vector<Error> errors) {
  std::stable_sort(errors.begin(), errors.end(), [](const Error& a, const Error& b) { return a.worst > b.worst; });
  const auto good = std::count_if(errors.begin(), errors.end(), [](const Error& each) { return each.worst <= 1; });
  const auto equal = std::count_if(errors.begin(), errors.end(), [](const Error& each) { return each.peak == 0; });
  std::cout << good << " of " << errors.size() << " runs within the limits, the peak equal to the byte in " << equal
            << "; the worst:\n";
  for (size_t i = 0; i < std::min<size_t>(3, errors.size()); ++i) {
    std::cout << "  " << errors[i].run << ": peak off by " << 100 * errors[i].peak << " %, at " << errors[i].worst
              << " of its limit: " << errors[i].what << "\n";
  }
  EXPECT_GE(static_cast<double>(good), kShare * static_cast<double>(errors.size()));
  for (const Error& each : errors) EXPECT_LE(std::abs(each.peak), kWorstPeak) << each.run;
}

TEST(AnalyticSample, FollowsTheDryRunOnTheCpu) {
  std::vector<Error> errors;
  for (const MatrixRun& run : analytic_sample(fathom::testing::seed(), kCount)) {
    Target target = cpu_target();
    target.threads = run.config.num_threads;
    target.attention_kernel = attention_kernel(run.config, run.shape, phantom::device());
    errors.push_back(error_of(run, target, predict(run)));
  }
  expect_close(std::move(errors));
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
  const Json rows = phantom::run_child(kProbe, {}, request, std::chrono::minutes(5));
  std::vector<MatrixRun> runs = analytic_sample(seed, kCount);
  for (MatrixRun& run : runs) run.config.cuda_kernels = gpu.cuda_kernels;
  ASSERT_EQ(rows.size(), runs.size());
  std::vector<Error> errors;
  for (size_t i = 0; i < runs.size(); ++i) {
    ASSERT_EQ(rows[i].at("name"), runs[i].name);
    Target target;
    target.device = config::Device::kCuda;
    target.compute_capability = gpu.compute_capability;
    target.attention_kernel = rows[i].at("attention_kernel").get<std::string>();
    errors.push_back(error_of(runs[i], target, ledger::memory_from_json(rows[i].at("memory"))));
  }
  expect_close(std::move(errors));
}

INSTANTIATE_TEST_SUITE_P(Generations, AnalyticSampleOnGpu,
                         ::testing::Values(Gpu{"compute_8_0", "8.0", 108}, Gpu{"compute_9_0", "9.0", 132},
                                           Gpu{"compute_12_0", "12.0", 170},
                                           Gpu{"compute_9_0_by_own_kernels", "9.0", 132, true}),
                         [](const auto& each) { return std::string(each.param.test); });

}  // namespace
}  // namespace fathom::plan::testing
