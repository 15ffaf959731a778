// Out of memory as LibTorch throws it, and as it throws it where NVML does not know the GPU.
#include "ledger/out_of_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fathom::ledger {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

c10::Error assertion(const std::string& condition, const std::string& place) {
  return {{"reportProcessMemoryInfo", "CUDACachingAllocator.cpp", 1150},
          condition + " INTERNAL ASSERT FAILED at \"/pytorch/c10/cuda/" + place +
              "\":1150, please report a bug to PyTorch. "};
}

TEST(OutOfMemory, IsWhatLibTorchCallsSo) {
  try {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total ",
                     "capacity of 1.00 GiB. If reserved but unallocated memory is large try setting X.");
  } catch (const c10::Error& error) {
    EXPECT_TRUE(is_out_of_memory(error));
    EXPECT_EQ(describe_out_of_memory(error),
              "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 1.00 GiB.");
  }
}

// LibTorch 2.11's own texts.
TEST(OutOfMemory, IsAGpuThatNvmlDoesNotKnow) {
  for (const char* condition :
       {"NVML_SUCCESS == DriverAPI::get()->nvmlInit_v2_()",
        "NVML_SUCCESS == DriverAPI::get()->nvmlDeviceGetHandleByPciBusId_v2_( pci_id, &nvml_device)",
        "NVML_SUCCESS == r"}) {
    const c10::Error error = assertion(condition, "CUDACachingAllocator.cpp");
    EXPECT_TRUE(is_out_of_memory(error)) << condition;
    EXPECT_THAT(describe_out_of_memory(error), HasSubstr("NVML does not know this GPU"));
    EXPECT_THAT(describe_out_of_memory(error), Not(HasSubstr("report a bug")));
  }
}

TEST(OutOfMemory, IsNoOtherError) {
  EXPECT_FALSE(is_out_of_memory(assertion("params.err == cudaErrorMemoryAllocation", "CUDACachingAllocator.cpp")));
  EXPECT_FALSE(is_out_of_memory(assertion("NVML_SUCCESS == DriverAPI::get()->nvmlInit_v2_()", "PeerToPeerAccess.cpp")));
}

}  // namespace
}  // namespace fathom::ledger
