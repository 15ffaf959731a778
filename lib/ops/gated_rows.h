// Rows that are gated by a number each.
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::ops {

// x_TD * sigmoid(gates_T1), in the type of x; computed in FP32 on CPUs. Keeps both for the backward pass.
at::Tensor gated_rows(const at::Tensor& x_TD, const at::Tensor& gates_T1);

}  // namespace fathom::ops
