// Products whose factors are both FP8, accumulated in FP32: a frozen FP8 base, or a weight that is trained in more
// bits, by rows that are quantized as they come.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/quantized/fp8_rows.h"
#include "ops/quantized/quantized_matrix.h"

namespace fathom::ops {

// A weight that is not stored so, BF16 or FP32 [N, D], for one product: Component::kFunctionality.
QuantizedMatrix quantize_weight_to_fp8(const at::Tensor& weight_ND);

// x W^T [T, N] in `dtype`, BF16 on a GPU. weight_ND: codes of FP8; on a GPU, of compute capability 8.9 or more,
// both sides are multiples of quant::kFp8Sides. On CPUs products of the same numbers in FP32.
at::Tensor fp8_product(const Fp8Rows& x, const QuantizedMatrix& weight_ND, at::ScalarType dtype);

// What reaches x, [T, D] in the gradient's type, through it: grad W. The gradient's rows, times the scales of W's rows,
// are quantized to E5M2; on a GPU W's codes are turned for it first.
at::Tensor fp8_gradient_of_input(const at::Tensor& grad_TN, const QuantizedMatrix& weight_ND);

}  // namespace fathom::ops
