// What feed-forward parts do to their width, with or without a gate.
#pragma once

#include <ATen/core/Tensor.h>

#include "base/activation.h"
#include "ops/linear/linear_input.h"

namespace fathom::ops {

// activation(gate) * up (Shazeer 2020, arXiv 2002.05202), computed in FP32. Keeps gate and up for the backward pass.
at::Tensor gated(Activation activation, const at::Tensor& gate_TF, const at::Tensor& up_TF);

// The same as the input of one linear layer, and of nobody else: where that asks for it again, it is made from gate and
// up, by fathom's CUDA kernel in the launch that makes their gradients.
LinearInput gated_input(Activation activation, const at::Tensor& gate_TF, const at::Tensor& up_TF);

// What its backward pass makes of the output's gradient, which is contiguous: the gradients of gate and up. out_TF, by
// CUDA kernels alone: takes the output, and may be grad_TF; undefined: none.
struct GateGradients {
  at::Tensor gate_TF, up_TF;
};
GateGradients gated_backward(Activation activation, const at::Tensor& grad_TF, const at::Tensor& gate_TF,
                             const at::Tensor& up_TF, const at::Tensor& out_TF = {});

// activation(x). Keeps x for the backward pass.
at::Tensor activated(Activation activation, const at::Tensor& x_TF);

}  // namespace fathom::ops
