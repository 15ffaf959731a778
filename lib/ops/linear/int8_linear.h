// Products whose both factors are INT8, "W8A8": the rows of the input are quantized as they come. For use, not for
// training.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/quantized/int8_rows.h"
#include "ops/quantized/quantized_matrix.h"

namespace fathom::ops {

// x W^T [T, N] in `dtype`: exact sums of products of codes, each times the scale of its row of x, then of its row of
// W, in FP32, and rounded once. weight_ND: INT8, of at most kMostInt8Columns; on GPUs both sides are multiples of 8.
at::Tensor int8_product(const Int8Rows& x, const QuantizedMatrix& weight_ND, at::ScalarType dtype);
inline constexpr int64_t kMostInt8Columns = (int64_t{1} << 31) / (int64_t{127} * 128);

// Orders the codes of an INT8 matrix, in place, as int8_product reads them fastest; nothing else reads them then. Where
// there are no tiles, or the matrix does not fill them, it stays as it is.
void order_in_tiles(QuantizedMatrix& weight_ND);

}  // namespace fathom::ops
