// The gate of gpt-oss's experts (base/activation.h), of rows in whose columns gate and up take turns: gate first.
#pragma once

#include <ATen/core/Tensor.h>

#include "base/activation.h"

namespace fathom::ops {

// [R, F] of [R, 2 F], both contiguous, computed in FP32 on CPUs. Without a gradient of its own.
at::Tensor clamped_gate(const ClampedGate& gate, const at::Tensor& gate_up_RG);
// [R, 2 F]: of gate and up before they were bounded, 0 beyond the bounds as LibTorch's clamp has it.
at::Tensor clamped_gate_backward(const ClampedGate& gate, const at::Tensor& grad_RF, const at::Tensor& gate_up_RG);

}  // namespace fathom::ops
