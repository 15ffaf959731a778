// The one CUDA device of this process: LibTorch's caching allocator told to a ledger, its statistics, library
// workspaces.
//
// What the ledger counts are the bytes asked for. The allocator's trace carries exactly these: TraceEntry::size_ is
// `orig_size` for ALLOC and `requested_size` for FREE_COMPLETED (c10/cuda/CUDACachingAllocator.cpp of LibTorch 2.11,
// alloc_found_block and free_block), whatever was rounded. A block that another stream uses (record_stream) is released
// in two acts: FREE_REQUESTED when its tensor dies, FREE_COMPLETED when that stream is done with it and the bytes can
// be taken again. The statistic requested_bytes falls with the second, and so does the ledger; on one stream they
// coincide. The entry is traced before the statistics change, so a tracker that compares must do so at the following
// event.
#include "ledger/cuda.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <shared_mutex>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "base/split_mix.h"
#include "ledger/cuda/cublas_workspaces.h"
#include "ledger/cuda/cudnn_attention.h"
#include "ledger/cuda/trace.h"

namespace fathom::ledger {
namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

constexpr c10::DeviceIndex kDevice = 0;
constexpr size_t kAggregate = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

// The trace keeps addresses as numbers.
const void* key_of(const caching::TraceEntry& entry) {
  return reinterpret_cast<const void*>(entry.addr_);  // NOLINT(performance-no-int-to-ptr)
}

// A byte tensor over a block that stays another's, because the ledger claims tensors.
at::Tensor view_of(const at::DataPtr& block) {
  c10::Storage storage(c10::Storage::use_byte_size_t{}, 0,
                       at::DataPtr(block.get(), block.get_context(), &c10::detail::deleteNothing, block.device()));
  return at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                                  caffe2::TypeMeta::Make<uint8_t>());
}

// Names what asks. Kernel scratch is not told apart on CUDA, so the thread stays out of it.
KernelCall operator_of_thread() { return {.op = current_kernel_call().op}; }

// LibTorch reads the allocator's settings now, and reports a number that is none by the name of the C++ function that
// failed on it.
void initialise() {
  try {
    at::globalContext().lazyInitDevice(at::kCUDA);
  } catch (const std::logic_error&) {
    throw Error("PYTORCH_ALLOC_CONF (or PYTORCH_CUDA_ALLOC_CONF) has a value that is not a number where one is needed",
                "correct or unset it");
  }
}

[[noreturn]] void refuse_host_memory(int64_t bytes, const std::string& reason) {
  throw Error(
      "the host's memory gives no " + std::to_string(bytes) + " bytes that the GPU can copy by itself: " + reason,
      "free memory of the host, raise its limit of locked memory (ulimit -l), or set offload_optimizer: false and "
      "offload_weights: false");
}

class Graph final : public CudaDevice::Recording {
 public:
  // pool: of the memory of all recordings.
  Graph(const std::function<void()>& work, at::cuda::MempoolId_t pool) {
    {
      const ClaimScope position_of_random_numbers(memory::Component::kFunctionality);
      graph_.capture_begin(pool, cudaStreamCaptureModeThreadLocal);  // other threads may wait for the device
    }
    try {
      work();
    } catch (...) {
      try {
        end(pool);
      } catch (const c10::Error&) {  // the consequence; what it follows from is thrown on
      }
      throw;
    }
    end(pool);
  }
  void replay() override { graph_.replay(); }

 private:
  // LibTorch's allocator is not told where a recording was broken, and would go on giving it memory.
  void end(at::cuda::MempoolId_t pool) {
    try {
      graph_.capture_end();
    } catch (const c10::Error&) {
      caching::endAllocateToPool(kDevice, pool);
      caching::releasePool(kDevice, pool);
      throw;
    }
  }

  at::cuda::CUDAGraph graph_;
};

class Device final : public CudaDevice {
 public:
  Device() {
    initialise();
    C10_CUDA_CHECK(cudaGetDeviceProperties(&properties_, kDevice));
    // From compute capability 9.0 on cuDNN would be LibTorch's first choice for attention in 16 bits; the configuration
    // says which it is.
    at::globalContext().setSDPUseCuDNN(false);
    play_cudnn_attention();
    // Called under the allocator's lock; the ledger takes only its own and calls nobody while it holds it.
    caching::attachAllocatorTraceTracker([this](const caching::TraceEntry& entry) {
      if (entry.device_ != kDevice) return;
      if (trace_) trace_->write(entry);
      if (entry.action_ == caching::TraceEntry::ALLOC) {
        ledger_->on_allocate(key_of(entry), static_cast<int64_t>(entry.size_), operator_of_thread());
      } else if (entry.action_ == caching::TraceEntry::FREE_COMPLETED) {
        ledger_->on_free(key_of(entry));
      }
    });
    caching::attachOutOfMemoryObserver(
        [this](c10::DeviceIndex device, size_t asked, size_t /*total*/, size_t /*free*/) {
          if (device != kDevice) return;
          claim_workspaces();  // a first step may fail before anybody else does
          ledger_->on_refusal(static_cast<int64_t>(asked), operator_of_thread());
        });
  }

  Ledger& ledger() override { return *ledger_; }

  Statistics statistics() const override {
    const auto stats = caching::getDeviceStats(kDevice);
    const auto &requested = stats.requested_bytes[kAggregate], &allocated = stats.allocated_bytes[kAggregate],
               &reserved = stats.reserved_bytes[kAggregate];
    return {.requested = requested.current,
            .allocated = allocated.current,
            .reserved = reserved.current,
            .peak_requested = requested.peak,
            .peak_allocated = allocated.peak,
            .peak_reserved = reserved.peak,
            .retries = stats.num_alloc_retries,
            .out_of_memory = stats.num_ooms};
  }

  void reset_peaks() override { caching::resetPeakStats(kDevice); }

  uint64_t layout() const override {
    NumberHash hash;
    for (const caching::SegmentInfo& segment : caching::snapshot().segments) {
      if (segment.device != kDevice) continue;
      hash.add(segment.address);
      hash.add(reinterpret_cast<uint64_t>(segment.stream));
      for (const caching::BlockInfo& block : segment.blocks) hash.add(2 * block.size + (block.allocated ? 1 : 0));
    }
    hash.add(notes_.value());
    return hash.value();
  }
  void note(uint64_t fact) override { notes_.add(fact); }

  std::unique_ptr<Recording> record(const std::function<void()>& work) override {
    return std::make_unique<Graph>(work, recordings_);
  }
  void take_recordable_stream() override { c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool()); }
  at::Tensor host_memory(int64_t bytes) override {
    const auto size = static_cast<size_t>(bytes);
    void* const begin =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (begin == MAP_FAILED) refuse_host_memory(bytes, "there is no address space");
    ::madvise(begin, size, MADV_HUGEPAGE);
    if (const cudaError_t error = cudaHostRegister(begin, size, cudaHostRegisterDefault); error != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      ::munmap(begin, size);
      refuse_host_memory(bytes, cudaGetErrorString(error));
    }
    const auto let_go = [size](void* memory) {
      static_cast<void>(cudaHostUnregister(memory));
      ::munmap(memory, size);
    };
    return at::from_blob(begin, {bytes}, let_go, at::kByte);
  }
  void release_cached() override { caching::emptyCache(); }

  // Waits for no one: a thread that runs out of memory may be adding a workspace.
  void claim_workspaces() override {
    for (auto* workspaces :
         {&at::cuda::cublas_handle_stream_to_workspace(), &at::cuda::cublaslt_handle_stream_to_workspace()}) {
      const std::shared_lock lock(workspaces->mutex, std::try_to_lock);
      if (!lock) continue;
      for (const auto& [handle_and_stream, block] : workspaces->map) {
        ledger_->claim(view_of(block), memory::Component::kKernels, "cuBLAS workspace");
      }
    }
  }

  void clear_workspaces() override { at::cuda::clearCublasWorkspaces(); }
  void limit(int64_t bytes) override {
    allow(std::min(static_cast<double>(bytes), share_of_settings() * static_cast<double>(total_bytes())));
  }
  void synchronize() override { c10::cuda::device_synchronize(); }

  void trace_to(const std::filesystem::path& file) override {
    trace_ = file.empty() ? nullptr : std::make_unique<TraceFile>(file);
  }

  void start_over() override {
    trace_to({});
    synchronize();
    clear_workspaces();
    wait_for_autograd();
    caching::emptyCache();
    const Statistics left = statistics();
    if (left.requested != 0 || left.reserved != 0) {
      throw Error("the GPU cannot start over: " + std::to_string(left.requested) + " bytes are still in use, " +
                  std::to_string(left.reserved) + " reserved");
    }
    caching::resetPeakStats(kDevice);
    caching::resetAccumulatedStats(kDevice);
    const double share = share_of_settings();
    if (share < 1) {
      allow(share * static_cast<double>(total_bytes()));
    } else if (limited_) {
      caching::setMemoryFraction(1, kDevice);
    }
    ledger_ = std::make_unique<Ledger>();
    notes_ = {};
    recordings_ = at::cuda::graph_pool_handle();
    c10::cuda::setCurrentCUDAStream(c10::cuda::getDefaultCUDAStream(kDevice));
  }

  std::string name() const override { return properties_.name; }
  std::string compute_capability() const override {
    return std::to_string(properties_.major) + "." + std::to_string(properties_.minor);
  }
  int64_t multiprocessors() const override { return properties_.multiProcessorCount; }
  int64_t total_bytes() const override { return memory_info().second; }
  int64_t free_bytes() const override { return memory_info().first; }

 private:
  // A backward pass that failed throws where it was called while autograd's own thread still holds parts of its graph:
  // it lets go of them a moment later.
  void wait_for_autograd() const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (statistics().requested != 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  static double share_of_settings() { return caching::CUDAAllocatorConfig::per_process_memory_fraction(); }

  // LibTorch takes a share of the memory that the device had when it began (a phantom may have less by now) and rounds
  // the product down: half a byte keeps that at `bytes`.
  void allow(double bytes) {
    const double share = (std::floor(bytes) + 0.5) / static_cast<double>(properties_.totalGlobalMem);
    caching::setMemoryFraction(std::min(share, 1.0), kDevice);
    limited_ = true;
  }

  static std::pair<int64_t, int64_t> memory_info() {
    const auto [free_bytes, total_bytes] = caching::get()->getMemoryInfo(kDevice);
    return {static_cast<int64_t>(free_bytes), static_cast<int64_t>(total_bytes)};
  }

  cudaDeviceProp properties_{};
  at::cuda::MempoolId_t recordings_ = at::cuda::graph_pool_handle();
  NumberHash notes_;
  bool limited_ = false;  // the allocator was told to reserve less than all
  std::unique_ptr<TraceFile> trace_;
  std::unique_ptr<Ledger> ledger_ = std::make_unique<Ledger>();
};

}  // namespace
}  // namespace fathom::ledger

fathom::ledger::CudaDevice* fathom_cuda_device() {
  // Never destroyed: tensors of static lifetime are released after it would be.
  static auto* device = new fathom::ledger::Device();
  return device;
}
