// Memory of the host that a device copies from and to by itself.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace fathom::ledger {

// A tensor of zeros, uint8 [bytes], on the CPU; on CUDA CudaDevice::host_memory, pinned.
using MakesHostMemory = std::function<at::Tensor(int64_t bytes)>;

}  // namespace fathom::ledger
