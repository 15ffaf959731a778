// The sample of the memory matrix that tests play: the same one at every run of a commit (tests/seed.h).
#pragma once

#include <vector>

#include "tests/plan/memory_matrix.h"
#include "tests/seed.h"

namespace fathom::plan::testing {

// 40 runs.
inline std::vector<MatrixRun> draw_sample() { return sample_of_matrix(fathom::testing::seed(), 40); }

}  // namespace fathom::plan::testing
