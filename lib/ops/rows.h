// Tensors as the CPU kernels take them, and which tensors they take.
#pragma once

#include <ATen/core/Tensor.h>

#include "cpu/kernels.h"

namespace fathom::ops {

// Elements that one thread takes at a time.
inline constexpr int64_t kElementsPerTask = 16384;

inline bool has_kernel(at::ScalarType type) { return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf; }

// FP32, BF16 and FP16 on the CPU go through the kernels; so do they on the phantom device, where outputs are made and
// nothing is computed. Everything else (other types, and CUDA but for ops/cuda_kernels.h) goes through ATen's
// operators.
inline bool has_kernel(const at::Tensor& tensor) {
  return (tensor.is_cpu() || tensor.is_privateuseone()) && has_kernel(tensor.scalar_type());
}

inline cpu::RowType row_type(at::ScalarType type) {
  if (type == at::kFloat) return cpu::RowType::kF32;
  return type == at::kHalf ? cpu::RowType::kF16 : cpu::RowType::kBF16;
}

inline cpu::Rows rows(const at::Tensor& contiguous) {
  return {contiguous.data_ptr(), row_type(contiguous.scalar_type())};
}

}  // namespace fathom::ops
