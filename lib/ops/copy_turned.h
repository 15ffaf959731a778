// Copies between tensors of which one may be the transpose of a matrix.
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::ops {

// to.copy_(from), without the buffer that LibTorch turns a matrix through on a CPU, and without the second matrix that
// it makes on a GPU where it copies from or to a CPU.
void copy_turned(const at::Tensor& to, const at::Tensor& from);

}  // namespace fathom::ops
