// The gate of gpt-oss's experts (base/activation.h), for CPUs.
#pragma once

#include <cstdint>

#include "cpu/kernels.h"

namespace fathom::cpu {

// Elements [first, last) of `out`, whose gate is element 2i of gate_up and whose up is the next one.
void clamped_gate(const ClampedGate& gate, Rows gate_up, Rows out, int64_t first, int64_t last);
// grad_gate_up: of what gate and up were before they were bounded, 0 beyond the bounds.
void clamped_gate_backward(const ClampedGate& gate, Rows grad_out, Rows gate_up, Rows grad_gate_up, int64_t first,
                           int64_t last);

}  // namespace fathom::cpu
