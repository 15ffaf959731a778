// TF32 (10 bits of fraction, FP32's range) for products of FP32 matrices on a GPU.
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::ops {

// For the whole process, as LibTorch keeps it. Throws UsageError if it is asked for and the device is not CUDA.
void use_tf32(bool on, at::Device device);

}  // namespace fathom::ops
