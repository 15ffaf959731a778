// Whether numbers are numbers.
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::train {

// By the largest magnitude: a norm of finite numbers may overflow. Takes no memory on the CPU; waits for a GPU.
bool is_finite(const at::Tensor& tensor);

}  // namespace fathom::train
