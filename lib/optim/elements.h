// Runs an optimizer's kernel over the elements of a parameter, on all threads; on a phantom, over none.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include "cpu/optimizer_kernels.h"
#include "ops/rows.h"

namespace fathom::optim {

inline constexpr int64_t kElementsPerTask = 16384;

// kernel(first, last) for shares of the elements, on the CPU.
template <typename Kernel>
void for_elements(const at::Tensor& parameter, const Kernel& kernel) {
  if (parameter.is_cpu()) at::parallel_for(0, parameter.numel(), kElementsPerTask, kernel);
}

}  // namespace fathom::optim
