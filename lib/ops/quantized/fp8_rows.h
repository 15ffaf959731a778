// Rows in FP8 (Micikevicius et al. 2022, arXiv 2209.05433), a scale for each: what products of FP8 read beside weights.
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::ops {

struct Fp8Rows {
  at::Tensor codes_TD;   // float8_e4m3fn or float8_e5m2
  at::Tensor scales_T1;  // FP32: each row's largest magnitude / the largest number of the format
};
// Of x [T, D], BF16 or FP32, contiguous. columns_D: FP32, by what columns are multiplied first; undefined: 1. By
// fathom's CUDA kernel where it takes the rows, else by ATen's operators, to the same codes but for ties.
Fp8Rows quantize_rows_to_fp8(const at::Tensor& x_TD, at::ScalarType format, const at::Tensor& columns_D = {});

}  // namespace fathom::ops
