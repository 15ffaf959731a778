// Tensors that stay where they are to autograd while their memory comes and goes (model/units.h).
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::model {

// Without memory.
at::Tensor shaped(at::IntArrayRef sizes, const at::TensorOptions& options);

// The tensor keeps its shape and type, and lies from byte `offset` of the storage on.
void place(const at::Tensor& tensor, const c10::Storage& storage, int64_t offset);

}  // namespace fathom::model
