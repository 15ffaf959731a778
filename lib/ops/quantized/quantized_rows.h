// Some rows of a quantized matrix on the CPU: for reading a matrix back that is too large to be there in full.
#pragma once

#include "ops/quantized/quantized_matrix.h"

namespace fathom::ops {

// Rows [first, first + count). `first` is a multiple of `count`, or in 4 bits of a block: what is made for a part of a
// matrix of equal parts is as large for each of them.
at::Tensor dequantize_rows(const QuantizedMatrix& matrix, int64_t first, int64_t count,
                           at::ScalarType dtype = at::kFloat);

}  // namespace fathom::ops
