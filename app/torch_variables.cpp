// The table, and the refusal of what is in it.
#include "app/torch_variables.h"

#include <array>
#include <cstdlib>
#include <string>

#include "base/error.h"

namespace fathom::app {
namespace {

const std::array kTable{
    TorchVariables{OnMemory::kObeyed,
                   "settings of the caching allocator (allocator_settings.h)",
                   {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}},
    TorchVariables{OnMemory::kObeyed,
                   "sizes of the workspaces of cuBLAS and cuBLASLt, which the allocator gives",
                   {"CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_WORKSPACE_SIZE", "TORCH_CUBLASLT_UNIFIED_WORKSPACE"}},
    TorchVariables{OnMemory::kObeyed,
                   "which library multiplies, and so which workspace is taken",
                   {"TORCH_BLAS_PREFER_CUBLASLT", "DISABLE_ADDMM_CUDA_LT", "TORCH_LINEAR_FLATTEN_3D"}},

    TorchVariables{OnMemory::kRefused,
                   "LibTorch then takes memory past its allocator, where nothing counts it",
                   {"PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_NO_HIP_MEMORY_CACHING"}},
    TorchVariables{OnMemory::kRefused,
                   "it is for GPUs of AMD, and some of LibTorch reads it all the same; fathom reads "
                   "PYTORCH_ALLOC_CONF",
                   {"PYTORCH_HIP_ALLOC_CONF"}},
    TorchVariables{OnMemory::kRefused,
                   "products of matrices are then tuned by the clock, in memory that no plan knows",
                   {"PYTORCH_TUNABLEOP_ENABLED"}},
    TorchVariables{OnMemory::kRefused,
                   "what cuDNN's attention takes is known without it alone",
                   {"CUDNN_FRONTEND_ATTN_DP_WORKSPACE_LIMIT", "TORCH_CUDNN_SDPA_AVOID_RECOMPILE"}},

    TorchVariables{OnMemory::kRefused,
                   "what NCCL takes of a GPU is known for buffers of its own size alone",
                   {"NCCL_BUFFSIZE", "NCCL_LL_BUFFSIZE", "NCCL_LL128_BUFFSIZE"}},

    TorchVariables{OnMemory::kNone,
                   "arithmetic: which precision or kernel",
                   {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "TORCH_LINALG_PREFER_CUSOLVER", "TORCH_LINALG_PREFER_HIPSOLVER",
                    "TORCH_BLAS_PREFER_HIPBLASLT", "TORCH_ROCM_FA_PREFER_CK", "TORCH_MKLDNN_MATMUL_MIN_DIM",
                    "TORCH_MKLDNN_MATMUL_MIN_SIZE"}},
    TorchVariables{
        OnMemory::kNone,
        "convolutions, and kinds of attention that no model here has",
        {"TORCH_CUDNN_USE_HEURISTIC_MODE_B", "TORCH_CUDNN_V8_API_DEBUG", "TORCH_CUDNN_V8_API_DISABLED",
         "TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT", "TORCH_CUDNN_SDPA_NESTED_TENSOR_ENABLED", "TORCH_CUDNN_SDPA_CACHE_DEBUG",
         "PYTORCH_MIOPEN_SUGGEST_NHWC", "PYTORCH_MIOPEN_SUGGEST_NHWC_BATCHNORM"}},
    TorchVariables{OnMemory::kNone,
                   "an order among kernels of attention, of which a run says which it takes",
                   {"TORCH_CUDNN_SDPA_DEPRIORITIZED"}},
    TorchVariables{
        OnMemory::kNone,
        "details of what PYTORCH_TUNABLEOP_ENABLED begins",
        {"PYTORCH_TUNABLEOP_BLAS_LOG", "PYTORCH_TUNABLEOP_FILENAME", "PYTORCH_TUNABLEOP_ICACHE_FLUSH_ENABLED",
         "PYTORCH_TUNABLEOP_MAX_TUNING_DURATION_MS", "PYTORCH_TUNABLEOP_MAX_TUNING_ITERATIONS",
         "PYTORCH_TUNABLEOP_MAX_WARMUP_DURATION_MS", "PYTORCH_TUNABLEOP_MAX_WARMUP_ITERATIONS",
         "PYTORCH_TUNABLEOP_NUMERICAL_CHECK", "PYTORCH_TUNABLEOP_RECORD_UNTUNED",
         "PYTORCH_TUNABLEOP_ROTATING_BUFFER_SIZE", "PYTORCH_TUNABLEOP_TUNING", "PYTORCH_TUNABLEOP_UNTUNED_FILENAME",
         "PYTORCH_TUNABLEOP_VERBOSE", "PYTORCH_TUNABLEOP_VERBOSE_FILENAME"}},
    TorchVariables{OnMemory::kNone,
                   "how segments are shared with other processes, which none are",
                   {"TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC"}},
    TorchVariables{OnMemory::kNone,
                   "assertions in kernels, which this build of LibTorch does not have",
                   {"PYTORCH_USE_CUDA_DSA", "PYTORCH_CUDA_DSA_STACKTRACING"}},
    TorchVariables{OnMemory::kNone,
                   "TorchScript, kernels that are compiled at run time, functionalization: not used",
                   {"PYTORCH_FUSION_DEBUG", "PYTORCH_JIT_ENABLE_LARGE_SOURCE_LOCATION", "PYTORCH_JIT_LOG_LEVEL",
                    "PYTORCH_JIT_OPT_LIMIT", "PYTORCH_JIT_TYPE_VERBOSITY", "PYTORCH_KERNEL_CACHE_PATH",
                    "PYTORCH_TENSOREXPR", "PYTORCH_TENSOREXPR_DONT_FUSE", "PYTORCH_TENSOREXPR_FALLBACK",
                    "PYTORCH_TENSOREXPR_RANDOM_TRANSFORM_SEED", "TORCH_DISABLE_FUNCTIONALIZATION_META_REFERENCE"}},
    TorchVariables{OnMemory::kNone,
                   "logs, traces and how errors are told",
                   {"PYTORCH_API_USAGE_STDERR", "TORCH_CPP_LOG_LEVEL", "TORCH_CUSTOM_TERMINATE",
                    "TORCH_DISABLE_ADDR2LINE", "TORCH_DISTRIBUTED_DEBUG", "TORCH_FR_BUFFER_SIZE", "TORCH_FR_CPP_STACK",
                    "TORCH_FR_DUMP_DYNAMIC_FILE_NAME", "TORCH_FR_DUMP_TEMP_FILE", "TORCH_INCLUDE_ONLY_ACTIVE",
                    "TORCH_INCLUDE_STACK_TRACE", "TORCH_PROFILER_ENABLE_COLLECTIVE_PROFILING",
                    "TORCH_SHOW_CPP_STACKTRACES", "TORCH_SHOW_DISPATCH_TRACE", "TORCH_SYMBOLIZE_MODE", "TORCH_VITAL",
                    "CUDNN_FRONTEND_LOG_FILE", "CUDNN_FRONTEND_LOG_INFO", "CUDNN_ERRATA_JSON_FILE"}},
    TorchVariables{OnMemory::kNone,
                   "threads of autograd and of Python, and how processes meet",
                   {"TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT", "TORCH_DISABLE_DEADLOCK_DETECTION", "TORCH_GLOO_LAZY_INIT"}},
    TorchVariables{OnMemory::kNone,
                   "c10d's exchanges over NCCL and symmetric memory, in whose place fathom calls NCCL",
                   {"TORCH_NCCL_ASYNC_ERROR_HANDLING",
                    "TORCH_NCCL_AVOID_RECORD_STREAMS",
                    "TORCH_NCCL_BCAST_UNIQUEID",
                    "TORCH_NCCL_BLOCKING_WAIT",
                    "TORCH_NCCL_COORD_CHECK_MILSEC",
                    "TORCH_NCCL_CUDA_EVENT_CACHE",
                    "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
                    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
                    "TORCH_NCCL_DESYNC_DEBUG",
                    "TORCH_NCCL_DUMP_ON_TIMEOUT",
                    "TORCH_NCCL_ENABLE_MONITORING",
                    "TORCH_NCCL_ENABLE_TIMING",
                    "TORCH_NCCL_EXTRA_DUMP_ON_EXEC",
                    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
                    "TORCH_NCCL_HIGH_PRIORITY",
                    "TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN",
                    "TORCH_NCCL_NAN_CHECK",
                    "TORCH_NCCL_NONBLOCKING_TIMEOUT",
                    "TORCH_NCCL_PROPAGATE_ERROR",
                    "TORCH_NCCL_RANKS_PER_ROOT",
                    "TORCH_NCCL_RETHROW_CUDA_ERRORS",
                    "TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING",
                    "TORCH_NCCL_TRACE_BUFFER_SIZE",
                    "TORCH_NCCL_TRACE_CPP_STACK",
                    "TORCH_NCCL_USE_COMM_NONBLOCKING",
                    "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
                    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC",
                    "TORCH_SYMMMEM",
                    "TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES",
                    "TORCH_SYMM_MEM_DISABLE_MULTICAST"}},
};

// All others count where they are there at all, whatever they say.
bool is_off(std::string_view name, std::string_view value) {
  return name == "PYTORCH_TUNABLEOP_ENABLED" && (value.empty() || value == "0");
}

}  // namespace

std::span<const TorchVariables> torch_variables() { return kTable; }

void refuse_torch_variables(bool several_processes) {
  for (const TorchVariables& row : kTable) {
    if (row.effect != OnMemory::kRefused) continue;
    for (const std::string_view name : row.names) {
      const char* value = std::getenv(std::string(name).c_str());
      if (value == nullptr || is_off(name, value) || (name.starts_with("NCCL_") && !several_processes)) continue;
      throw UsageError(std::string(name) + " is set: " + std::string(row.why), "unset " + std::string(name));
    }
  }
}

}  // namespace fathom::app
