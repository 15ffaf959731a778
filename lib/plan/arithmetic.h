// How much a step computes: floating-point operations and bytes moved. No torch header.
#pragma once

#include <cstdint>

#include "config/run_config.h"
#include "model/shape.h"
#include "train/steps.h"

namespace fathom::plan {

// A multiplication and an addition are two operations.
struct Arithmetic {
  int64_t matrix_flops = 0;     // of products with weights, forward, backward and recomputed
  int64_t attention_flops = 0;  // of attention's two products; of a causal mask, the half that is needed
  int64_t bytes_moved = 0;      // that operators other than those products read and write
  bool operator==(const Arithmetic&) const = default;
};

// By closed formula, of one optimizer step; what the operators of the dry run add up to (DryRun::arithmetic).
Arithmetic estimate_arithmetic(const model::ModelShape& shape, const config::RunConfig& run,
                               const train::StepShape& step);

}  // namespace fathom::plan
