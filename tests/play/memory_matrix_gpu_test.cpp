// A sample of the memory matrix on phantom GPUs of three generations: what the components add up to is what the caching
// allocator counts, at every event.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/json_value.h"
#include "phantom_gpu/child.h"
#include "tests/play/matrix_sample.h"

namespace fathom::play::testing::memory_matrix_gpu_test {
namespace {

constexpr char kProbe[] = FATHOM_BINARY_DIR "/tests/phantom_gpu/gpu_probe/phantom_gpu_probe";
constexpr char kCudaKernels[] = FATHOM_BINARY_DIR "/lib/libfathom_cuda_kernels.so";

struct Gpu {
  const char* test;
  const char* name;
  const char* compute_capability;
  int multiprocessors;
  bool cuda_kernels = false;
};
void PrintTo(const Gpu& gpu, std::ostream* out) { *out << gpu.test; }

class MemoryMatrixOnGpu : public ::testing::TestWithParam<Gpu> {};

TEST_P(MemoryMatrixOnGpu, ASampleIsCountedAsTheAllocatorCounts) {
  const Gpu& gpu = GetParam();
  if (gpu.cuda_kernels && !std::filesystem::exists(kCudaKernels)) GTEST_SKIP() << "built without CUDA kernels";
  Json names = Json::array();
  for (const plan::testing::MatrixRun& run : draw_sample()) names.push_back(run.name);
  const Json request = {{"scenario", "matrix"},
                        {"cuda_kernels", gpu.cuda_kernels},
                        {"runs", names},
                        {"gpu",
                         {{"name", gpu.name},
                          {"compute_capability", gpu.compute_capability},
                          {"multiprocessors", gpu.multiprocessors},
                          {"memory_bytes", int64_t{80} << 30},
                          {"unlimited", false},
                          {"placement", 0}}}};
  const Json rows = phantom_gpu::run_child(kProbe, {}, request, std::chrono::minutes(5));
  ASSERT_EQ(rows.size(), names.size());
  for (const Json& row : rows) {
    SCOPED_TRACE(row.at("name").get<std::string>());
    EXPECT_GT(row.at("events"), 100);
    EXPECT_EQ(row.at("differences"), 0);
    EXPECT_EQ(row.at("negative"), 0);
    EXPECT_EQ(row.at("peak_live"), row.at("peak_requested"));
    EXPECT_EQ(row.at("left"), Json({0, 0, 0}));
  }
}

INSTANTIATE_TEST_SUITE_P(Generations, MemoryMatrixOnGpu,
                         ::testing::Values(Gpu{"compute_8_0", "A100", "8.0", 108},
                                           Gpu{"compute_9_0", "H100", "9.0", 132},
                                           Gpu{"compute_12_0", "RTX 5090", "12.0", 170},
                                           Gpu{"compute_9_0_by_own_kernels", "H100", "9.0", 132, true}),
                         [](const auto& each) { return std::string(each.param.test); });

}  // namespace
}  // namespace fathom::play::testing::memory_matrix_gpu_test
