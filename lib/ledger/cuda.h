// What fathom asks of a CUDA device beyond ATen: its ledger, the caching allocator's statistics, library workspaces.
// Implemented in libfathom_cuda.so, which is loaded only for CUDA runs (real or phantom), after libtorch_cuda.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "ledger/ledger.h"

namespace fathom::ledger {

class CudaDevice {
 public:
  virtual ~CudaDevice() = default;
  // Listens to the caching allocator since this object was made, or started over.
  virtual Ledger& ledger() = 0;

  // Bytes, as the caching allocator counts them.
  struct Statistics {
    int64_t requested = 0, allocated = 0, reserved = 0;                 // now
    int64_t peak_requested = 0, peak_allocated = 0, peak_reserved = 0;  // since reset_peaks
    int64_t retries = 0, out_of_memory = 0;                             // counts
  };
  virtual Statistics statistics() const = 0;
  virtual void reset_peaks() = 0;
  // A hash of the caching allocator's segments and of the blocks in them, in use and free, and of what was noted: where
  // it is equal, the same requests are answered alike.
  virtual uint64_t layout() const = 0;
  // Something beside the memory that decides what will be asked of it.
  virtual void note(uint64_t fact) = 0;

  // Work that was recorded in place of being done (a CUDA graph), for the device to do again and again.
  class Recording {
   public:
    virtual ~Recording() = default;
    // Queues all of it on this thread's stream.
    virtual void replay() = 0;
  };
  // Records what `work`, on this thread, queues on its stream. Its tensors lie where they are from then on; what it
  // lets go of is given to later recordings, whose replays must not come in between, and to nobody else. Throws what
  // `work` throws, c10::Error where that waits for the device or copies the host's memory.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& work) = 0;
  // Has this thread queue its work on a stream that can be recorded, as LibTorch's own first choice is not, until
  // start_over.
  virtual void take_recordable_stream() = 0;
  // Gives memory that nobody uses back to the driver.
  virtual void release_cached() = 0;
  // A tensor of zeros, uint8 [bytes], in the host's memory, pinned: the device copies from and to it by itself. Whole
  // pages are taken, on a phantom of address space alone. Throws Error where the host has not so much.
  virtual at::Tensor host_memory(int64_t bytes) = 0;
  // Claims the cuBLAS and cuBLASLt workspaces that exist now as Component::kKernels.
  virtual void claim_workspaces() = 0;
  virtual void clear_workspaces() = 0;
  // Until start_over the caching allocator reserves at most so much of this device, at least 1, and no more than
  // PYTORCH_ALLOC_CONF's per_process_memory_fraction allows; beyond, it is out of memory.
  virtual void limit(int64_t bytes) = 0;
  virtual void synchronize() = 0;
  // Between two runs in one process, when the tensors of the first are gone: gives library workspaces and cached memory
  // back to the driver, sets the statistics to zero and replaces the ledger by an empty one. References to the old
  // ledger end here. Throws Error if tensors are still alive.
  virtual void start_over() = 0;
  // From now on writes what the caching allocator does to a file of text (ledger/cuda/trace.h says in which form),
  // until the process ends, it starts over or the file is another. Call while no block is alive. Empty: writes no more.
  virtual void trace_to(const std::filesystem::path& file) = 0;

  virtual std::string name() const = 0;                // "NVIDIA H100 80GB HBM3"
  virtual std::string compute_capability() const = 0;  // "9.0"
  virtual int64_t multiprocessors() const = 0;
  virtual int64_t total_bytes() const = 0;
  virtual int64_t free_bytes() const = 0;
};

}  // namespace fathom::ledger

// The only symbol that libfathom_cuda.so exports: the device 0 of this process, made at the first call.
extern "C" fathom::ledger::CudaDevice* fathom_cuda_device();
