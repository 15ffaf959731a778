// A sample of the memory matrix, drawn anew each time: the dry run and the CPU's ledger agree to the byte.
#include <gtest/gtest.h>

#include "tests/plan/matrix_run.h"
#include "tests/plan/matrix_sample.h"

namespace fathom::plan::testing {
namespace {

TEST(MemoryMatrix, ASampleIsPredictedToTheByte) {
  for (const MatrixRun& run : draw_sample()) {
    const ledger::Memory dry = predict(run), real = measure(run);
    EXPECT_GT(real.peak, 0) << run.name;
    EXPECT_LE(real.kernel_scratch, dry.kernel_scratch) << run.name;
    EXPECT_LE(real.peak_with_scratch, dry.peak_with_scratch) << run.name;
    const std::vector<std::string> found = differences(dry, real);
    if (!found.empty()) ADD_FAILURE() << run.name << ": " << found.size() << " figures differ\n  " << found.front();
  }
}

}  // namespace
}  // namespace fathom::plan::testing
