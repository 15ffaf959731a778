// Norms that are gated, on rows of memory, for CPUs.
#pragma once

#include <cstdint>

#include "cpu/kernels.h"

namespace fathom::cpu {

// out[t] = in[t] * weight * silu(gate[t]) / sqrt(mean of in[t]^2 + eps), for rows [first, last) of `width`.
void gated_norm(Rows in, Rows gate, Rows weight, double eps, Rows out, int64_t first, int64_t last, int64_t width);
// grad_weight is FP32, added to, and null where it is not wanted.
void gated_norm_backward(Rows grad_out, Rows in, Rows gate, Rows weight, double eps, Rows grad_in, Rows grad_gate,
                         float* grad_weight, int64_t first, int64_t last, int64_t width);

}  // namespace fathom::cpu
