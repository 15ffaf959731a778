// Opens the devices of this process.
#include "app/run/session.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <algorithm>

#include "app/machine.h"
#include "base/error.h"
#include "base/log.h"
#include "base/numbers.h"
#include "dist/nccl.h"
#include "ops/cuda_kernels.h"
#include "train/prove_kernels.h"

namespace fathom::app {
namespace {

// Of a library that the program's loader has loaded.
template <typename Function>
Function* loaded(const char* symbol, const std::string& library) {
  const auto function = reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, symbol));
  if (function == nullptr) throw Error(library + " is not loaded", "this is a defect of the program's loader");
  return function;
}

ledger::CudaDevice& open_cuda() {
  return *loaded<decltype(fathom_cuda_device)>("fathom_cuda_device", "libfathom_cuda.so")();
}

// processes: of this machine, each of which takes its share of the cores unless it is told otherwise.
void set_threads(int64_t threads, int64_t processes) {
  const int64_t cores = this_cpu().cores;
  if (threads == 0 && processes > 1) threads = std::max<int64_t>(1, cores / processes);
  if (threads == 0) return;
  if (threads > cores) {
    log_warning("num_threads is " + std::to_string(threads) + " and this process has " + format_counted(cores, "core") +
                ": threads that wait for each other's cores can make a step take many "
                "times as long; set num_threads: " +
                std::to_string(cores) + " or less");
  }
  at::set_num_threads(static_cast<int>(threads));
}

}  // namespace

Session open_session(const Invocation& invocation, int64_t processes_here) {
  Session session;
  session.processes_here = processes_here > 0 ? processes_here : invocation.config.num_processes;
  // On CUDA the CPU's allocator holds only what is read from and written to files.
  ledger::Ledger& cpu = ledger::install_cpu();
  set_threads(invocation.config.num_threads, session.processes_here);
  session.phantom = invocation.phantom_gpu.has_value();
  if (invocation.device == config::Device::kCuda) {
    ledger::CudaDevice& cuda = open_cuda();
    if (!invocation.trace.empty()) cuda.trace_to(invocation.trace);
    session.placement = {at::Device(at::kCUDA, 0), &cuda.ledger(), &cuda};
  } else {
    session.placement = {at::Device(at::kCPU), &cpu, nullptr};
  }
  return session;
}

void prove_kernels(const Invocation& invocation, Session& session) {
  const bool takes_kernels = session.placement.cuda != nullptr && invocation.config.cuda_kernels.value_or(false);
  if (!takes_kernels || session.phantom || !invocation.trace.empty()) return;
  ops::use_cuda_kernels(true);
  train::prove_kernels(session.placement.device);
  ops::use_cuda_kernels(false);
  session.placement.cuda->start_over();
  session.placement.ledger = &session.placement.cuda->ledger();
}

void exchange_over_nccl(Session& session, std::chrono::milliseconds timeout) {
  const auto open = loaded<decltype(fathom_nccl_group)>("fathom_nccl_group", "libfathom_nccl.so");
  const int64_t free = session.placement.cuda->free_bytes();
  session.gpu_group.reset(open(session.group.get(), timeout.count()));
  session.taken_by_nccl = std::max<int64_t>(0, free - session.placement.cuda->free_bytes());
  session.placement.group = session.gpu_group.get();
}

void keep_within_budget(int64_t budget, const Session& session) {
  if (budget == 0) return;
  if (session.placement.cuda != nullptr) {
    session.placement.cuda->limit(budget);
  } else {
    ledger::install_cpu(budget);
  }
}

const ledger::Ledger& ledger_of(const Invocation& invocation) {
  return invocation.device == config::Device::kCuda ? open_cuda().ledger() : ledger::install_cpu();
}

config::GpuSpec spec_of(const ledger::CudaDevice& device) {
  return {device.name(), device.name(), device.compute_capability(), device.multiprocessors(), device.total_bytes()};
}

}  // namespace fathom::app
