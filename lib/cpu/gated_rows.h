// Rows that are gated by a number each, for CPUs.
#pragma once

#include <cstdint>

#include "cpu/kernels.h"

namespace fathom::cpu {

// out[t] = in[t] * sigmoid(gates[t]), for rows [first, last) of `width`.
void gate_rows(Rows in, Rows gates, Rows out, int64_t first, int64_t last, int64_t width);
// grad_in[t] = grad_out[t] * sigmoid(gates[t]); grad_gates[t] = sum of grad_out[t] * in[t], by the slope of the
// sigmoid.
void gate_rows_backward(Rows grad_out, Rows in, Rows gates, Rows grad_in, Rows grad_gates, int64_t first, int64_t last,
                        int64_t width);

}  // namespace fathom::cpu
