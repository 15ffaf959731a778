// Quantizing and dequantizing with ATen's operators, for GPUs: what quantized_matrix.h promises, in parts that bound
// the memory of intermediate results.
#pragma once

#include "ops/quantized/quantized_matrix.h"

namespace fathom::ops {

// Codes and scales (FP32, of all rows or blocks) of part_RD, rows [first, first + R) of the matrix; part_RD is used up.
// `first` is a multiple of quant::kNf4Block, so that blocks begin with the part; groups of INT4 begin with rows.
void quantize_part(const QuantizedMatrix& matrix, const at::Tensor& scales, int64_t first, const at::Tensor& part_RD);
// Double quantization of all scales.
void quantize_all_scales(const QuantizedMatrix& matrix, const at::Tensor& scales);
at::Tensor dequantize_in_parts(const QuantizedMatrix& matrix, at::ScalarType dtype);

}  // namespace fathom::ops
