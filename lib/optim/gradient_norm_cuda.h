// The norm of gradients by fathom's kernels for GPUs: one launch reads all of them, another makes the norm and the
// factor.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "ops/cuda_kernels.h"
#include "optim/gradient_norm.h"

namespace fathom::optim {

// The kernels in use where they take each of these, which lie on one device; else, and of none, null.
const ops::CudaKernels* norm_kernels_for(const std::vector<at::Tensor>& gradients);

// Of each gradient in order, its sums of squares as ops::CudaKernels::sums_of_squares has them: FP32 [sums].
at::Tensor sums_of_squares(const ops::CudaKernels& kernels, const std::vector<at::Tensor>& gradients);

// As gradient_norm, of all sums together.
GradientNorm norm_of_sums(const ops::CudaKernels& kernels, const at::Tensor& sums, double max_norm,
                          std::optional<double> loss_scale);

}  // namespace fathom::optim
