// Runs of well-known shapes, from 135 million to 70 billion parameters, for the phantoms: nothing real could play them
// in a test.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/plan/memory_matrix.h"

namespace fathom::plan::testing {

// `count` runs drawn from `seed`: shape, method, adapters, precision, checkpointing, attention, accumulation,
// evaluation, rows and lengths to 32,768 (2,048 for math attention). One optimizer step each.
std::vector<MatrixRun> large_runs(uint64_t seed, size_t count);

}  // namespace fathom::plan::testing
