// What a fused projection made, as the tensors of its parts.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace fathom::ops {

// Each of `groups` equal stretches of x_TN's columns holds parts of these widths, one behind the other. Of every list a
// contiguous tensor is made that has the first of its parts of all groups, then the second, and so on. What is behind
// the parts is left out. Keeps nothing; the gradients are put back where the columns were.
std::vector<at::Tensor> split_columns(const at::Tensor& x_TN, int64_t groups,
                                      const std::vector<std::vector<int64_t>>& parts);

}  // namespace fathom::ops
