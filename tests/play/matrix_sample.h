// The sample of the memory matrix that tests play: the same one at every run of a commit (tests/seed.h).
#pragma once

#include <vector>

#include "tests/plan/memory_matrix.h"
#include "tests/seed.h"

namespace fathom::play::testing {

// 40 runs.
inline std::vector<plan::testing::MatrixRun> draw_sample() {
  return plan::testing::sample_of_matrix(fathom::testing::seed(), 40);
}

}  // namespace fathom::play::testing
