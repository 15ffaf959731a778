// Inputs of linear layers in INT8, a scale for each token.
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::ops {

struct Int8Rows {
  at::Tensor codes_TD;    // INT8
  at::Tensor scales_T;    // FP32: each row's largest magnitude / 127
  bool in_tiles = false;  // codes of whole strips of 16 rows as cpu/amx_codes.h orders them; their padding is arbitrary
};
// Of x [T, D], FP32, BF16 or FP16, as quant/int8.h quantizes a row; on GPUs by ATen's operators, to the same codes. In
// tiles where the processor has them and they fill the rows.
Int8Rows quantize_rows(const at::Tensor& x_TD);

}  // namespace fathom::ops
