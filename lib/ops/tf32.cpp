// LibTorch's switch: cuBLAS rounds the factors, sums stay FP32.
#include "ops/tf32.h"

#include <ATen/Context.h>

#include "base/error.h"

namespace fathom::ops {

void use_tf32(bool on, at::Device device) {
  if (on && !device.is_cuda()) {
    throw UsageError("tf32 is true, but this run is on the CPU, which multiplies FP32 as it is",
                     "set tf32: false, or train on a GPU (device: cuda)");
  }
  if (device.is_cuda()) at::globalContext().setFloat32MatmulPrecision(on ? "high" : "highest");
}

}  // namespace fathom::ops
