// The device of this process, as the config and the command line want it, with its ledger.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "app/invocation.h"
#include "dist/group.h"
#include "ledger/cuda.h"
#include "train/trainer.h"

namespace fathom::app {

struct Session {
  train::Placement placement;
  std::unique_ptr<dist::Group> group = nullptr;      // of several processes that train; placement's on CPUs
  std::unique_ptr<dist::Group> gpu_group = nullptr;  // placement's on GPUs
  bool phantom = false;                              // the CUDA device is a phantom
  int64_t processes_here = 1;                        // of the run, on this machine
  int64_t taken_by_nccl = 0;                         // bytes of the GPU, when its ranks had met
};

// Installs the CPU's ledger, sets the number of threads (with a warning if they are more than the cores), and opens
// CUDA if the loader brought it. Call once, before any tensor exists. processes_here: those of the run that share this
// machine; 0: all of num_processes.
Session open_session(const Invocation& invocation, int64_t processes_here = 0);
// Before a run: has fathom's kernels prove themselves (train/prove_kernels.h) on a GPU of which a
// run takes them, and starts over. Not on a phantom, which computes nothing, and not where the allocator is traced.
void prove_kernels(const Invocation& invocation, Session& session);
// Gives the placement a group over the session's that exchanges tensors by NCCL.
void exchange_over_nccl(Session& session, std::chrono::milliseconds timeout);
// Holds the device that runs to memory_budget from here on: after planning, which takes a little of its own.
void keep_within_budget(int64_t budget, const Session& session);

// Of the device that open_session opened.
const ledger::Ledger& ledger_of(const Invocation& invocation);

// What a phantom must pretend to be this device; it need not be in configs/gpus.yaml.
config::GpuSpec spec_of(const ledger::CudaDevice& device);

}  // namespace fathom::app
