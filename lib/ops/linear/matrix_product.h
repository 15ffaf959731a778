// Products of two matrices, fathom::mm and fathom::addmm, and of batches of them, fathom::bmm: operators of LibTorch's
// dispatcher. On CPUs fathom multiplies 16 bits itself where it does better than LibTorch: in AMX's tiles, or through
// FP32 where the processor has no instructions for them. All else is aten::mm and addmm, which stay as they are for the
// rest of the process.
//
// One call is one operator to whoever counts, measures or plays it. None has a gradient: the functions that multiply
// say theirs.
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::ops {

// x y, of one type. x: [m, k], y: [k, n].
at::Tensor mm(const at::Tensor& x, const at::Tensor& y);
// The same in `dtype`: on CUDA from sums in FP32, elsewhere cast from the type of the factors.
at::Tensor mm(const at::Tensor& x, const at::Tensor& y, at::ScalarType dtype);
// out: [m, n], of that type; must not overlap the factors. Returns it.
at::Tensor& mm_out(at::Tensor& out, const at::Tensor& x, const at::Tensor& y);
// Of a batch, with any strides. x: [b, m, k], y: [b, k, n]. On CUDA aten::bmm.
at::Tensor bmm(const at::Tensor& x, const at::Tensor& y);
// sum + alpha x y. sum: [m, n], or what expands to it.
at::Tensor addmm(const at::Tensor& sum, const at::Tensor& x, const at::Tensor& y, const at::Scalar& alpha = 1);
// In place; sum: [m, n]. Returns it.
at::Tensor& addmm_(at::Tensor& sum, const at::Tensor& x, const at::Tensor& y, const at::Scalar& alpha = 1);

// x W^T + bias. weight: [N, D]; bias: [N], undefined where there is none.
at::Tensor multiply_by_weight(const at::Tensor& x_TD, const at::Tensor& weight_ND, const at::Tensor& bias_N);

}  // namespace fathom::ops
