// The runs over which the analytic estimate is held against dry runs: half of the memory matrix, half of real sizes.
#pragma once

#include <vector>

#include "tests/plan/large_runs.h"
#include "tests/plan/memory_matrix.h"

namespace fathom::play::testing {

// 2 x count runs; the same for the same seed.
inline std::vector<plan::testing::MatrixRun> analytic_sample(uint64_t seed, size_t count) {
  std::vector<plan::testing::MatrixRun> runs = plan::testing::sample_of_matrix(seed, count);
  for (plan::testing::MatrixRun& run : plan::testing::large_runs(seed, count)) runs.push_back(std::move(run));
  return runs;
}

}  // namespace fathom::play::testing
