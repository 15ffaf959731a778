// RMSNorm of what is then gated by SiLU.
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::ops {

// Rows of x and of gate, [..., D], as wide as weight_D is long: x / sqrt(mean of x^2 + eps) * weight * silu(gate), in
// the type of x; computed in FP32. Keeps all three for the backward pass.
at::Tensor gated_norm(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& weight_D, double eps);

}  // namespace fathom::ops
