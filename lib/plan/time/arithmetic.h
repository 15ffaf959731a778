// How much a step computes: floating-point operations and bytes moved.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/run.h"
#include "plan/time/step_parts.h"
#include "schedule/steps.h"

namespace fathom::plan {

// What a GPU takes for it, operator by operator, where operators were measured on its like
// (plan/time/operator_times.h).
struct DeviceTime {
  int64_t matrix_ns = 0, attention_ns = 0, memory_ns = 0;  // of what Arithmetic counts likewise
  int64_t launches = 0;
  int64_t recorded = 0;  // of them, what the host does not give it one by one (config cuda_graphs)
  bool operator==(const DeviceTime&) const = default;
};

// A multiplication and an addition are two operations.
struct Arithmetic {
  int64_t matrix_flops = 0;  // of products with weights, forward, backward and recomputed
  // Of attention's products of queries, keys and values. Fused kernels compute the half that a causal mask leaves,
  // within each document and the sliding window, two products forward and five backward (Dao 2023, arXiv 2307.08691,
  // section 3.1: they recompute the scores); math attention computes both halves, two products forward and four
  // backward.
  int64_t attention_flops = 0;
  int64_t bytes_moved = 0;  // that operators other than those products read and write
  DeviceTime device = {};   // 0: was not asked for, or cannot be known
  bool operator==(const Arithmetic&) const = default;
};

// Throws Error where a number leaves int64.
Arithmetic operator+(const Arithmetic& a, const Arithmetic& b);
Arithmetic operator-(const Arithmetic& a, const Arithmetic& b);

using StepArithmetic = StepParts<Arithmetic>;

// As the step's operators declare it (footprint/footprint.h), of one optimizer step. What checkpointing computes again
// is of the backward pass, and so are updates within it (config optimizer_in_backward). Operations are exactly those
// that a dry run counts (play/arithmetic_count.h), bytes within a third of its count. Throws Error where a number
// leaves int64.
StepArithmetic estimate_arithmetic(const arch::Run& run, const schedule::StepShape& step);

// Of one micro-batch, unit by unit as model/units.h has them.
struct UnitArithmetic {
  Arithmetic forward, backward;
};
std::vector<UnitArithmetic> unit_arithmetic(const arch::Run& run, const schedule::BatchShape& batch);

// Of a workload's steps the one that computes most, with as many micro-batches as the run accumulates: those beyond the
// ones given (see schedule::maximal_shapes) are like the last. Empty for no steps.
schedule::StepShape longest_step(const arch::Run& run, const std::vector<schedule::StepShape>& steps);

}  // namespace fathom::plan
