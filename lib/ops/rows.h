// Tensors as the CPU kernels take them, and which tensors they take.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/kernels.h"

namespace fathom::ops {

// FP32 and BF16 on the CPU go through the kernels; so do they on the phantom device, where outputs are made and nothing
// is computed. Everything else (other types, and CUDA but for ops/cuda_kernels.h) goes through ATen's operators.
inline bool has_kernel(const at::Tensor& tensor) {
  const bool device = tensor.is_cpu() || tensor.is_privateuseone();
  return device && (tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kBFloat16);
}

inline kernels::Rows rows(const at::Tensor& contiguous) {
  return {contiguous.data_ptr(),
          contiguous.scalar_type() == at::kFloat ? kernels::RowType::kF32 : kernels::RowType::kBF16};
}

}  // namespace fathom::ops
