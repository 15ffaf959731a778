// The driver as compilers of kernels use it (Triton's, and what they make): modules are loaded and their kernels
// launched without a look at their code. Launches are checked against the device's limits and then swallowed.
#include <cuda.h>
#include <stdio.h>
#include <string.h>

#include "phantom.h"

// cuda.h renames functions to their newest versions; both names are asked for.
#undef cuCtxPushCurrent
#undef cuCtxPopCurrent
#undef cuDeviceTotalMem
#undef cuDevicePrimaryCtxRelease
#undef cuModuleGetGlobal

enum { kClusters = 66 };  // that run at once: half of an H100's pairs of multiprocessors; no memory depends on it

CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = phantom_has_address_space() ? phantom_gpu()->devices : 0;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  (void)device;
  snprintf(name, (size_t)size, "%s", phantom_gpu()->name);
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  (void)device;
  *bytes = phantom_gpu()->memory_bytes;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) {
  *device = phantom_device();
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize(void) { return CUDA_SUCCESS; }
static __thread CUcontext pushed[8];
static __thread int pushed_count;
CUresult cuCtxPushCurrent_v2(CUcontext context) {
  if (pushed_count == sizeof pushed / sizeof *pushed) return CUDA_ERROR_OUT_OF_MEMORY;
  cuCtxGetCurrent(&pushed[pushed_count++]);
  return cuCtxSetCurrent(context);
}
CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  if (context) cuCtxGetCurrent(context);
  return pushed_count ? cuCtxSetCurrent(pushed[--pushed_count]) : CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  (void)device;
  return CUDA_SUCCESS;
}

static CUresult make(void** handle) {
  *handle = phantom_handle();
  return *handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  (void)image;
  return make((void**)module);
}
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count, CUjit_option* options, void** values) {
  (void)image, (void)count, (void)options, (void)values;
  return make((void**)module);
}
CUresult cuModuleLoad(CUmodule* module, const char* file) {
  (void)file;
  return make((void**)module);
}
CUresult cuModuleUnload(CUmodule module) {
  (void)module;
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  (void)module;
  *function = (CUfunction)strdup(name);
  return *function ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule module, const char* name) {
  (void)module, (void)name;
  *address = (CUdeviceptr)phantom_symbol();
  if (bytes) *bytes = PHANTOM_GRANULE;
  return CUDA_SUCCESS;
}
CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* options, void** values, unsigned count,
                           CUlibraryOption* of_library, void** their_values, unsigned their_count) {
  (void)code, (void)options, (void)values, (void)count, (void)of_library, (void)their_values, (void)their_count;
  return make((void**)library);
}
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return cuModuleGetFunction((CUfunction*)kernel, (CUmodule)library, name);
}
CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  *function = (CUfunction)kernel;
  return CUDA_SUCCESS;
}

// Registers and spills are in the machine code, which is not read.
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  (void)function;
  *value = attribute == CU_FUNC_ATTRIBUTE_NUM_REGS                ? 32
           : attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? PHANTOM_THREADS_PER_BLOCK
                                                                  : 0;
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  (void)function;
  const bool too_much =
      attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && (size_t)value > phantom_gpu()->shared_per_block;
  return too_much ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
  (void)function, (void)config;
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveClusters(int* count, CUfunction function, const CUlaunchConfig* config) {
  (void)function, (void)config;
  *count = kClusters;
  return CUDA_SUCCESS;
}

static CUresult launch(CUfunction function, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
                       CUstream stream) {
  const int error = phantom_check_launch(grid, block, shared_bytes, phantom_gpu()->shared_per_block);
  if (phantom_gpu()->log) {
    fprintf(stderr, "phantom: launch (%u,%u,%u) x (%u,%u,%u), %u bytes shared, %s: %s\n", grid[0], grid[1], grid[2],
            block[0], block[1], block[2], shared_bytes, (const char*)function, error ? "refused" : "swallowed");
  }
  phantom_goes_to(stream);
  phantom_launched();
  return error ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters,
                        void** extra) {
  (void)parameters, (void)extra;
  return launch(function, (const unsigned[3]){grid_x, grid_y, grid_z}, (const unsigned[3]){block_x, block_y, block_z},
                shared_bytes, stream);
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  return cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                        config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream, parameters,
                        extra);
}
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                   CUstream stream, void** parameters) {
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters,
                        NULL);
}

// Where a kernel's blocks of tensors lie (compute capability 9.0 on): no kernel reads it here.
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill) {
  (void)type, (void)rank, (void)address, (void)sizes, (void)strides, (void)box, (void)element_strides;
  (void)interleave, (void)swizzle, (void)promotion, (void)fill;
  *map = (CUtensorMap){0};
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  const bool is_device = phantom_is_device((const void*)address);
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *(CUdeviceptr*)value = address;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *(int*)value = is_device ? phantom_device_of((const void*)address) : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *(unsigned*)value = is_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}
