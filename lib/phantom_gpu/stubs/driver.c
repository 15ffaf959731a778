// The driver as LibTorch's expandable segments and its device queries need it: physical memory is counted, mapping it
// costs nothing. All other driver functions answer CUDA_ERROR_NOT_SUPPORTED.
#include <cuda.h>
#include <stdint.h>
#include <stdlib.h>

#include "phantom.h"

// cuda.h renames functions to their newest versions; LibTorch asks for them by the plain name.
#undef cuCtxPushCurrent
#undef cuCtxPopCurrent

CUresult cuInit(unsigned flags) {
  (void)flags;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "the phantom GPU cannot do this";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return ordinal >= 0 && ordinal < phantom_gpu()->devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  (void)device;
  const struct phantom_gpu* gpu = phantom_gpu();
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = gpu->major;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = gpu->minor;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = gpu->multiprocessors;
      break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      *value = 32;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = PHANTOM_THREADS_PER_BLOCK;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
      *value = 65536;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      *value = PHANTOM_SHARED_DEFAULT;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = (int)gpu->shared_per_block;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      *value = (int)gpu->shared_per_multiprocessor;
      break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      *value = 1500000;  // kHz: speeds of compilers' estimates, on which no memory depends
      break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      *value = 5120;
      break;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
      *value = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
      *value = 1;
      break;
    default:
      *value = 0;  // fabric handles, multicast, GPUDirect: not pretended
  }
  return CUDA_SUCCESS;
}

// Of each device, the only one that it ever has: its number is its place here.
static char contexts[PHANTOM_MOST_DEVICES];
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  (void)device;
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (device < 0 || device >= phantom_gpu()->devices) return CUDA_ERROR_INVALID_DEVICE;
  *context = (CUcontext)&contexts[device];
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = (CUcontext)&contexts[phantom_device()];
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  if (!context) return CUDA_SUCCESS;  // no context: the next call of the runtime makes the device's own current again
  return phantom_use_device((int)((const char*)context - contexts)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

struct physical {
  size_t bytes;
  int device;
};

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags option) {
  (void)properties, (void)option;
  *bytes = PHANTOM_GRANULE;
  return CUDA_SUCCESS;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* properties,
                     unsigned long long flags) {
  (void)flags;
  const int device = properties->location.id;
  if (device < 0 || device >= phantom_gpu()->devices) return CUDA_ERROR_INVALID_DEVICE;
  if (bytes == 0 || bytes % PHANTOM_GRANULE) return CUDA_ERROR_INVALID_VALUE;
  if (!phantom_take(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  struct physical* physical = malloc(sizeof *physical);
  if (!physical) {
    phantom_give_back(device, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *physical = (struct physical){.bytes = bytes, .device = device};
  *handle = (CUmemGenericAllocationHandle)(uintptr_t)physical;
  return CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  struct physical* physical = (struct physical*)(uintptr_t)handle;
  phantom_give_back(physical->device, physical->bytes);
  free(physical);
  return CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
  (void)hint, (void)flags;
  *address = (CUdeviceptr)(uintptr_t)phantom_reserve(bytes, alignment);
  return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  (void)bytes;
  phantom_unreserve((void*)(uintptr_t)address);
  return CUDA_SUCCESS;
}
CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  (void)address, (void)bytes, (void)offset, (void)handle, (void)flags;
  return CUDA_SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  (void)address, (void)bytes;
  return CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  (void)address, (void)bytes, (void)access, (void)count;
  return CUDA_SUCCESS;
}
