// Some rows of a quantized matrix on the CPU, in FP32: for reading a matrix back that is too large to be there in full.
#pragma once

#include "ops/quantized_matrix.h"

namespace fathom::ops {

// Rows [first, first + count). In 4 bits `first` is a multiple of quant::kNf4Block, so that blocks begin with it.
at::Tensor dequantize_rows(const QuantizedMatrix& matrix, int64_t first, int64_t count);

}  // namespace fathom::ops
