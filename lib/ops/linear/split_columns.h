// What a fused projection made, as the tensors of its parts.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace fathom::ops {

// x_TN's columns in order, `widths` of them each, copied into contiguous tensors. Keeps nothing; the gradients are put
// side by side again.
std::vector<at::Tensor> split_columns(const at::Tensor& x_TN, const std::vector<int64_t>& widths);

}  // namespace fathom::ops
