// Finds libfathom_cuda_kernels.so, which the program's loader has loaded if it was built.
#include "ops/cuda_kernels.h"

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <atomic>

#include "base/error.h"

namespace fathom::ops {
namespace {

std::atomic<const CudaKernels*> kernels_in_use = nullptr;  // read by autograd's threads

}  // namespace

void use_cuda_kernels(bool on) {
  if (!on) {
    kernels_in_use = nullptr;
    return;
  }
  const auto table = reinterpret_cast<decltype(&fathom_cuda_kernels)>(::dlsym(RTLD_DEFAULT, "fathom_cuda_kernels"));
  if (table == nullptr) {
    throw Error("cuda_kernels is true, but this program was built without fathom's CUDA kernels",
                "build it where nvcc 13 is, without -DFATHOM_CUDA_KERNELS=OFF, or set cuda_kernels: false");
  }
  kernels_in_use = table();
}

const CudaKernels* cuda_kernels_for(at::Device device, at::ScalarType type) {
  const bool taken = device.is_cuda() && (type == at::kFloat || type == at::kBFloat16);
  return taken ? kernels_in_use.load() : nullptr;
}

const CudaKernels* cuda_kernels_for(const at::Tensor& tensor) {
  return tensor.is_contiguous() ? cuda_kernels_for(tensor.device(), tensor.scalar_type()) : nullptr;
}

bool takes_rows(const at::Tensor& x_TD) {
  constexpr uintptr_t kAlignment = 32;
  const int64_t width = x_TD.size(-1);
  return width % kRowPack == 0 && width <= kWidestRow &&
         reinterpret_cast<uintptr_t>(x_TD.const_data_ptr()) % kAlignment == 0;
}

void* current_stream(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) return nullptr;
  return c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getStream(tensor.device()).native_handle();
}

void check_launch(const char* kernel, int error) {
  if (error == 0) return;
  throw Error(std::string("the GPU refused the kernel ") + kernel + ": " + kernels_in_use.load()->error_text(error),
              "set cuda_kernels: false");
}

}  // namespace fathom::ops
