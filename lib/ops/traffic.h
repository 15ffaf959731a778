// Announces what the program's own kernels read and write, which the dispatcher does not see.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <vector>

namespace fathom::ops {

// The second argument of RECORD_USER_SCOPE_WITH_INPUTS: each tensor once for every time that it is read or written.
template <typename... Tensors>
std::vector<c10::IValue> traffic(const Tensors&... tensors) {
  return {c10::IValue(tensors)...};
}

}  // namespace fathom::ops
