#include "launch/gpu.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace fathom::launch {
namespace {

Processes place(int64_t local_rank, int64_t local_size) {
  return {
      .launcher = "torchrun", .rank = 8 + local_rank, .size = 16, .local_rank = local_rank, .local_size = local_size};
}

TEST(GpuOf, IsThatOfThePlaceAmongTheProcessesOfTheMachine) {
  EXPECT_EQ(gpu_of(place(2, 4), nullptr), "2");
  EXPECT_EQ(gpu_of(place(2, 4), "4,5,6,7"), "6");
  EXPECT_EQ(gpu_of(place(1, 2), "GPU-8f6d,GPU-90ab"), "GPU-90ab");
}

TEST(GpuOf, IsWhatTheLauncherHasGiven) {
  EXPECT_EQ(gpu_of(place(0, 1), nullptr), std::nullopt);  // alone on its machine
  EXPECT_EQ(gpu_of(place(2, 4), "3"), std::nullopt);      // as srun --gpus-per-task=1 does
  EXPECT_EQ(gpu_of(place(2, 4), ""), std::nullopt);       // none
}

TEST(GpuOf, IsRefusedWhereThereAreFewerThanProcesses) {
  EXPECT_THROW(gpu_of(place(2, 4), "0,1"), UsageError);
  EXPECT_THROW(gpu_of(place(0, 4), "0,1"), UsageError);  // all processes say so
}

}  // namespace
}  // namespace fathom::launch
