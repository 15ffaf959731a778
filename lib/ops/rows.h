// Tensors as the CPU kernels take them, and which tensors they take.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/kernels.h"

namespace fathom::ops {

inline bool has_kernel(at::ScalarType type) { return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf; }

// FP32, BF16 and FP16 on the CPU go through the kernels; so do they on the phantom device, where outputs are made and
// nothing is computed. Everything else (other types, and CUDA but for ops/cuda_kernels.h) goes through ATen's
// operators.
inline bool has_kernel(const at::Tensor& tensor) {
  return (tensor.is_cpu() || tensor.is_privateuseone()) && has_kernel(tensor.scalar_type());
}

inline kernels::RowType row_type(at::ScalarType type) {
  if (type == at::kFloat) return kernels::RowType::kF32;
  return type == at::kHalf ? kernels::RowType::kF16 : kernels::RowType::kBF16;
}

inline kernels::Rows rows(const at::Tensor& contiguous) {
  return {contiguous.data_ptr(), row_type(contiguous.scalar_type())};
}

}  // namespace fathom::ops
