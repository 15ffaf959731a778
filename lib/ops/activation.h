// What feed-forward parts do to their width, with or without a gate.
#pragma once

#include <ATen/core/Tensor.h>

#include "base/activation.h"

namespace fathom::ops {

// activation(gate) * up (Shazeer 2020, arXiv 2002.05202), computed in FP32. Keeps gate and up for the backward pass.
at::Tensor gated(Activation activation, const at::Tensor& gate_TF, const at::Tensor& up_TF);

// What its backward pass makes of the output's gradient, which is contiguous: the gradients of gate and up.
struct GateGradients {
  at::Tensor gate_TF, up_TF;
};
GateGradients gated_backward(Activation activation, const at::Tensor& grad_TF, const at::Tensor& gate_TF,
                             const at::Tensor& up_TF);

// activation(x). Keeps x for the backward pass.
at::Tensor activated(Activation activation, const at::Tensor& x_TF);

}  // namespace fathom::ops
