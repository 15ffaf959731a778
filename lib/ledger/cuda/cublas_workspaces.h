// The few functions of ATen/cuda/CUDAContextLight.h that concern cuBLAS's workspaces. That header includes those of
// cuBLAS, cuSPARSE and cuSOLVER, which are no part of what fathom builds with; these declarations are copied from
// LibTorch 2.11.
#pragma once

#include <c10/core/Allocator.h>

#include <map>
#include <shared_mutex>
#include <tuple>

namespace at::cuda {

// By (library handle, stream). The blocks come from the caching allocator and stay until they are cleared.
struct WorkspaceMapWithMutex {
  std::map<std::tuple<void*, void*>, at::DataPtr> map;
  std::shared_mutex mutex;
};
WorkspaceMapWithMutex& cublas_handle_stream_to_workspace();
WorkspaceMapWithMutex& cublaslt_handle_stream_to_workspace();
void clearCublasWorkspaces();

}  // namespace at::cuda
