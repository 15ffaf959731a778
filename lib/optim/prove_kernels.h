// fathom's kernels for GPUs that change weights prove themselves on the GPU that they meet, before they touch a
// model's.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace fathom::optim {

// Has AdamW in each kind of storage clip and update a few ten thousand numbers twice, on the device and on the CPU.
// Throws Error, naming the kind, where they end otherwise. On a GPU: ops::use_cuda_kernels is on, and all that it took
// is free again afterwards.
void prove_kernels(at::Device device);

// Whether numbers are what was expected of their type, each tensor as a whole; NaN is none.
bool are_near(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected);

}  // namespace fathom::optim
