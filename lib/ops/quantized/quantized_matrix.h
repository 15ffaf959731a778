// A frozen matrix in 8 or 4 bits (quant/layout.h), quantized part by part and dequantized for one product.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "ops/cuda/kernels.h"
#include "quant/layout.h"

namespace fathom::ops {

// What ATen's operators look codes up in on a GPU; undefined tensors where a kernel needs none.
struct QuantTables {
  at::Tensor pairs_256x2;     // the two values of a byte of NF4 or MXFP4, or codes of INT4
  at::Tensor thresholds_15;   // between NF4's values
  at::Tensor dynamic_256;     // what bytes of scales stand for: double quantization's codes, or MXFP4's exponents
  at::Tensor boundaries_255;  // between those
};
// On a GPU they belong to Component::kFunctionality.
QuantTables make_quant_tables(quant::Scheme scheme, at::Device device);

struct QuantizedMatrix {
  quant::Scheme scheme = {};
  int64_t rows = 0, columns = 0;  // N, D
  at::Tensor codes;               // int8 or float8_e4m3fn [N, D]; in 4 bits bytes of two codes, [(N D + 1) / 2]
  at::Tensor scales;              // FP32 [N], or of each block; bytes where quant::has_byte_scales
  at::Tensor outer_scales;        // FP32, undefined without double quantization: of 256 scales each, then the offset
  QuantTables tables;
  bool in_tiles = false;  // codes as order_in_tiles (ops/linear/int8_linear.h) leaves them, for its products alone
};
// Uninitialised, on the device.
QuantizedMatrix empty_quantized_matrix(quant::Scheme scheme, int64_t rows, int64_t columns, at::Device device,
                                       const QuantTables& tables);

// Quantizes the matrix some rows at a time, so that no more of its values are in FP32 at once than
// footprint/quantized_part_size.h says, or 64 rows.
// fill(first, part_RD): writes rows [first, first + R) of the matrix into part_RD, FP32 on the matrix's device. On CPUs
// and on CUDA the codes are the same but for rounding at a tie, and for rows or blocks of magnitudes below 1e-28; MXFP4
// is made on CPUs alone.
void quantize(const QuantizedMatrix& matrix, const std::function<void(int64_t first, at::Tensor part_RD)>& fill);

// As CUDA kernels read it, while the matrix lives.
CodedMatrix coded(const QuantizedMatrix& matrix);

// The matrix [N, D] in FP32 or BF16, computed in FP32 and rounded once.
at::Tensor dequantize(const QuantizedMatrix& matrix, at::ScalarType dtype);
// On a CPU, or where fathom's own kernels take out_ND (ops/cuda_kernels.h): into out_ND, contiguous, of the matrix's
// size.
void dequantize_into(const QuantizedMatrix& matrix, const at::Tensor& out_ND);

}  // namespace fathom::ops
