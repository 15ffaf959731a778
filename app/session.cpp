// Opens the devices of this process.
#include "app/session.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

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
  // On CUDA the CPU's allocator holds only what is read from and written to files.
  ledger::Ledger& cpu =
      ledger::install_cpu(invocation.device == config::Device::kCpu ? invocation.config.memory_budget : 0);
  if (invocation.config.num_threads > 0) at::set_num_threads(static_cast<int>(invocation.config.num_threads));
  session.phantom = invocation.phantom_gpu.has_value();
  if (invocation.device == config::Device::kCuda) {
    ledger::CudaDevice& cuda = open_cuda();
    if (!invocation.trace.empty()) cuda.trace_to(invocation.trace);
    if (invocation.config.memory_budget > 0) cuda.limit(invocation.config.memory_budget);
    session.placement = {at::Device(at::kCUDA, 0), &cuda.ledger(), &cuda};
  } else {
    session.placement = {at::Device(at::kCPU), &cpu, nullptr};
  }
  return session;
}

const ledger::Ledger& ledger_of(const Invocation& invocation) {
  return invocation.device == config::Device::kCuda ? open_cuda().ledger() : ledger::install_cpu();
}

config::GpuSpec spec_of(const ledger::CudaDevice& device) {
  return {device.name(), device.name(), device.compute_capability(), device.multiprocessors(), device.total_bytes()};
}

}  // namespace fathom::app
