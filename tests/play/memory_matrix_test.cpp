// A sample of the memory matrix: the dry run and the CPU's ledger agree to the byte.
#include <gtest/gtest.h>

#include "phantom/kernel_scratch.h"
#include "tests/play/matrix_run.h"
#include "tests/play/matrix_sample.h"

namespace fathom::play::testing {
namespace {

TEST(MemoryMatrix, ASampleIsPredictedToTheByte) {
  for (const plan::testing::MatrixRun& run : draw_sample()) {
    const memory::Memory dry = predict(run), real = measure(run);
    EXPECT_GT(real.peak, 0) << run.name;
    const std::vector<std::string> found = differences(dry, real);
    if (!found.empty()) ADD_FAILURE() << run.name << ": " << found.size() << " figures differ\n  " << found.front();
  }
}

TEST(MemoryMatrix, PreferencesArePredictedToTheByte) {
  int played = 0;
  for (const plan::testing::MatrixRun& plain : draw_sample()) {
    const auto run = plan::testing::of_preferences(plain);
    if (!run) continue;
    const memory::Memory dry = predict(*run), real = measure(*run);
    const std::vector<std::string> found = differences(dry, real);
    if (!found.empty()) ADD_FAILURE() << run->name << ": " << found.size() << " figures differ\n  " << found.front();
    ++played;
  }
  EXPECT_GT(played, 10);
}

TEST(MemoryMatrix, KernelScratchOfASampleIsBounded) {
  if (!phantom::kernel_scratch_was_measured_here()) {
    GTEST_SKIP() << "kernel scratch has not been measured on this processor's instruction set";
  }
  for (const plan::testing::MatrixRun& run : draw_sample()) {
    const memory::Memory dry = predict(run), real = measure(run);
    EXPECT_LE(real.kernel_scratch, dry.kernel_scratch) << run.name;
    EXPECT_LE(real.peak_with_scratch, dry.peak_with_scratch) << run.name;
  }
}

}  // namespace
}  // namespace fathom::play::testing
