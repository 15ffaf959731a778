// What sinks make of attention that was computed without them (ops/attention/sinks.h), for CPUs.
#pragma once

#include <cstdint>

#include "cpu/kernels.h"

namespace fathom::cpu {

// Row r is of head r % heads, whose sink is sinks[r % heads]: FP32, BF16 or FP16.
struct SinkRows {
  Rows sinks;
  int64_t heads = 0, size = 0;  // size: numbers of an output
};

// Of rows [first, last): logsumexp becomes l' = log(e^logsumexp + e^sink), and out is multiplied by
// e^(logsumexp - l').
void add_sinks(Rows out, float* logsumexp, const SinkRows& rows, int64_t first, int64_t last);

// grad_sinks[head] -= e^(sink - logsumexp) * (sum of grad_out * out), in FP32; of rows [first, last) with sinks.
void sinks_backward(Rows grad_out, Rows out, const float* logsumexp, const SinkRows& rows, float* grad_sinks,
                    int64_t first, int64_t last);

}  // namespace fathom::cpu
