// The sample of the memory matrix that a test draws: another one each time, the same one for the same seed.
#pragma once

#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

#include "tests/plan/memory_matrix.h"

namespace fathom::plan::testing {

// 40 runs. Prints the seed; the environment's FATHOM_MATRIX_SEED draws them again.
inline std::vector<MatrixRun> draw_sample() {
  const char* given = std::getenv("FATHOM_MATRIX_SEED");
  const uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device()();
  std::cout << "FATHOM_MATRIX_SEED=" << seed << " draws this sample again" << std::endl;
  return sample_of_matrix(seed, 40);
}

}  // namespace fathom::plan::testing
