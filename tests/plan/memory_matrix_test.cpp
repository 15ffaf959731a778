// A sample of the memory matrix, drawn anew each time: the dry run and the CPU's ledger agree to the byte.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "tests/plan/matrix_run.h"

namespace fathom::plan::testing {
namespace {

constexpr size_t kSample = 40;

uint64_t sample_seed() {
  const char* given = std::getenv("FATHOM_MATRIX_SEED");
  const uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device()();
  std::cout << "FATHOM_MATRIX_SEED=" << seed << " draws this sample again" << std::endl;
  return seed;
}

TEST(MemoryMatrix, ASampleIsPredictedToTheByte) {
  for (const MatrixRun& run : sample_of_matrix(sample_seed(), kSample)) {
    const ledger::Memory dry = predict(run), real = measure(run);
    EXPECT_GT(real.peak, 0) << run.name;
    const std::vector<std::string> found = differences(dry, real);
    if (!found.empty()) ADD_FAILURE() << run.name << ": " << found.size() << " figures differ\n  " << found.front();
  }
}

}  // namespace
}  // namespace fathom::plan::testing
