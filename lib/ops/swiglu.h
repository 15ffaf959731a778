// The gate of Llama's feed-forward layer (Shazeer 2020, arXiv 2002.05202).
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::ops {

// silu(gate) * up = gate / (1 + exp(-gate)) * up, computed in FP32. Keeps gate and up for the backward pass.
at::Tensor swiglu(const at::Tensor& gate_TF, const at::Tensor& up_TF);

// What its backward pass makes of the output's gradient, which is contiguous: the gradients of gate and up.
struct SwigluGradients {
  at::Tensor gate_TF, up_TF;
};
SwigluGradients swiglu_backward(const at::Tensor& grad_TF, const at::Tensor& gate_TF, const at::Tensor& up_TF);

}  // namespace fathom::ops
