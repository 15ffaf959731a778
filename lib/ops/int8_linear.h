// Products whose both factors are INT8, "W8A8": the rows of the input are quantized as they come. For use, not for
// training.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/quantized_matrix.h"

namespace fathom::ops {

struct Int8Rows {
  at::Tensor codes_TD;  // INT8
  at::Tensor scales_T;  // FP32: each row's largest magnitude / 127
};
// Of x [T, D], FP32 or BF16, as quant/int8.h quantizes a row; on GPUs by ATen's operators, to the same codes.
Int8Rows quantize_rows(const at::Tensor& x_TD);

// x W^T [T, N] in `dtype`: exact sums of products of codes, each times the scale of its row of x, then of its row of
// W, in FP32, and rounded once. weight_ND: INT8, of at most kMostInt8Columns; on GPUs both sides are multiples of 8.
at::Tensor int8_product(const Int8Rows& x, const QuantizedMatrix& weight_ND, at::ScalarType dtype);
inline constexpr int64_t kMostInt8Columns = (int64_t{1} << 31) / (int64_t{127} * 128);

}  // namespace fathom::ops
