// What feed-forward parts do to their width, with or without a gate.
#pragma once

#include <ATen/core/Tensor.h>

#include "base/activation.h"

namespace fathom::ops {

// activation(gate) * up; silu: ops/swiglu.h. Keeps gate and up for the backward pass.
at::Tensor gated(Activation activation, const at::Tensor& gate_TF, const at::Tensor& up_TF);

// activation(x). Keeps x for the backward pass.
at::Tensor activated(Activation activation, const at::Tensor& x_TF);

}  // namespace fathom::ops
