// fathom's kernels for GPUs prove themselves on the GPU that they meet, before they compute anything of a run.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace fathom::train {

// Has each of them compute a few thousand numbers on the device, forward and backward, and AdamW of each kind clip and
// update some ten thousand twice. Throws Error, naming which, where a CPU computes otherwise. On a GPU:
// ops::use_cuda_kernels is on, and all that it took is free again afterwards. What needs a product in FP8 is left out.
void prove_kernels(at::Device device);

// Whether numbers are what was expected of their type, each tensor as a whole; NaN is none.
bool are_near(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected);

}  // namespace fathom::train
