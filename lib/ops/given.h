// Tensors that may be undefined, as autograd's functions take them.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace fathom::ops {

// Of undefined ones nothing, which gets no gradient.
inline std::optional<at::Tensor> given(const at::Tensor& x) { return x.defined() ? std::optional(x) : std::nullopt; }

}  // namespace fathom::ops
