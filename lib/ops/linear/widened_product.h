// Products of matrices in 16 bits on processors without instructions for them, where LibTorch multiplies number by
// number: blocks are widened to FP32, multiplied there by LibTorch's own product, and rounded once. Those of batches of
// matrices and within flash attention stay LibTorch's.
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::ops {

// Whether products of this type are made so on this processor, or under a limit that oneDNN was given
// (ONEDNN_MAX_CPU_ISA).
bool widens_products(at::ScalarType type);

// out [m, n] = alpha x [m, k] y [k, n] + sum [m, n], all of one such type, in any order of memory, no side 0, with sums
// in FP32. sum: null, or a matrix that may be out. The scratch is taken from LibTorch's allocator at once, before
// anything is read, and does not grow with the product beyond a block's.
void multiply_widened(const at::Tensor& x, const at::Tensor& y, const at::Tensor& out, const at::Tensor* sum = nullptr,
                      const at::Scalar& alpha = 1);

}  // namespace fathom::ops
