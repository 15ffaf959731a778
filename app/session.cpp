// Opens the devices of this process.
#include "app/session.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <cstdlib>

#include "app/installation.h"
#include "base/bytes.h"
#include "base/error.h"

namespace fathom::app {
namespace {

ledger::CudaDevice& open_cuda() {
  using Open = ledger::CudaDevice*();
  const auto open = reinterpret_cast<Open*>(::dlsym(RTLD_DEFAULT, "fathom_cuda_device"));
  if (open == nullptr) throw Error("libfathom_cuda.so is not loaded", "this is a defect of the program's loader");
  return *open();
}

}  // namespace

Session open_session(const Invocation& invocation) {
  Session session;
  ledger::Ledger& cpu = ledger::install_cpu();
  if (invocation.config.num_threads > 0) at::set_num_threads(static_cast<int>(invocation.config.num_threads));
  session.phantom = invocation.phantom_gpu.has_value();
  if (invocation.device == config::Device::kCuda) {
    ledger::CudaDevice& cuda = open_cuda();
    session.placement = {at::Device(at::kCUDA, 0), &cuda.ledger(), &cuda};
  } else {
    session.placement = {at::Device(at::kCPU), &cpu, nullptr};
  }
  return session;
}

config::GpuSpec gpu_in_list(const ledger::CudaDevice& device) {
  std::optional<config::GpuSpec> nearest;
  int64_t distance = 0;
  for (const auto& [name, spec] : config::load_gpus(gpus_file())) {
    if (spec.compute_capability != device.compute_capability()) continue;
    const int64_t difference = std::abs(spec.memory_bytes - device.total_bytes());
    if (spec.product == device.name()) return spec;
    if (!nearest || difference < distance) nearest = spec, distance = difference;
  }
  if (!nearest || distance > kGiB) {
    throw Error(device.name() + " (compute capability " + device.compute_capability() + ", " +
                    format_bytes(device.total_bytes()) + ") is not in " + gpus_file().string(),
                "add an entry for it to that file");
  }
  return *nearest;
}

}  // namespace fathom::app
