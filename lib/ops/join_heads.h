// Heads of two parts.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fathom::ops {

// Of each of `heads` heads of so many numbers what x_TN has of it, [T, heads * A], and behind it what one_TB has for
// all of them, [T, B] with A + B = numbers; undefined: zeros. Returns [T, heads * numbers], contiguous. Keeps nothing.
at::Tensor join_heads(const at::Tensor& x_TN, const at::Tensor& one_TB, int64_t heads, int64_t numbers);

}  // namespace fathom::ops
