// Whether fathom's own CUDA kernels take the place of LibTorch's operators: off, unless a run asks for them.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/cuda/kernels.h"

namespace fathom::ops {

// For the whole process, as LibTorch's own choices of kernels are. Throws Error if they are asked for and this program
// was built without them.
void use_cuda_kernels(bool on);

// The kernels where they are on and take this tensor: contiguous FP32 or BF16 on a GPU. Else null.
const CudaKernels* cuda_kernels_for(const at::Tensor& tensor);
// The same of a contiguous tensor that is yet to be made.
const CudaKernels* cuda_kernels_for(at::Device device, at::ScalarType type);

// Whether a block takes rows like those of x whole (ops/cuda/kernels.h).
bool takes_rows(const at::Tensor& x_TD);

// The cudaStream_t that LibTorch queues work for this tensor's device on; null for the CPU's, where tests play kernels.
void* current_stream(const at::Tensor& tensor);

// Throws Error, naming the kernel, if its launch was refused.
void check_launch(const char* kernel, int error);

}  // namespace fathom::ops
