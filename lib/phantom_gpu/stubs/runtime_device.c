// What the CUDA runtime says of its devices, which are all alike: number, properties, attributes.
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "phantom.h"

cudaError_t cudaGetDeviceCount(int* count) {
  *count = phantom_has_address_space() ? phantom_gpu()->devices : 0;
  if (*count) return cudaSuccess;
  return phantom_fail(phantom_has_address_space() ? cudaErrorNoDevice : cudaErrorInitializationError);
}

static __thread int current;
int phantom_device(void) { return current; }
bool phantom_use_device(int device) {
  if (device < 0 || device >= phantom_gpu()->devices) return false;
  current = device;
  return true;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return phantom_use_device(device) ? cudaSuccess : phantom_fail(cudaErrorInvalidDevice);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  if (device < 0 || device >= phantom_gpu()->devices) return phantom_fail(cudaErrorInvalidDevice);
  snprintf(text, (size_t)size, "0000:%02x:00.0", phantom_gpu()->places[device] + 1);
  return cudaSuccess;
}
// Each reaches all others.
cudaError_t cudaDeviceCanAccessPeer(int* answer, int device, int peer) {
  const int devices = phantom_gpu()->devices;
  if (device < 0 || device >= devices || peer < 0 || peer >= devices) return phantom_fail(cudaErrorInvalidDevice);
  *answer = device != peer;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  (void)flags;
  const bool is_other = peer >= 0 && peer < phantom_gpu()->devices && peer != current;
  return is_other ? cudaSuccess : phantom_fail(cudaErrorInvalidDevice);
}
cudaError_t cudaDeviceSynchronize(void) { return phantom_wait(NULL); }

// Grid and block limits, register file and constant memory are the same for every compute capability from 7.5 on
// (CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability"). Cache size, bus width and clock
// differ, but no size that LibTorch allocates depends on them.
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp* properties, int device) {
  const struct phantom_gpu* gpu = phantom_gpu();
  if (device < 0 || device >= gpu->devices) return phantom_fail(cudaErrorInvalidDevice);
  *properties = (struct cudaDeviceProp){
      .uuid.bytes = {(char)(gpu->places[device] + 1)},
      .totalGlobalMem = gpu->memory_bytes,
      .sharedMemPerBlock = PHANTOM_SHARED_DEFAULT,
      .regsPerBlock = 65536,
      .warpSize = 32,
      .memPitch = 0x7fffffff,
      .maxThreadsPerBlock = PHANTOM_THREADS_PER_BLOCK,
      .maxThreadsDim = {1024, 1024, 64},
      .maxGridSize = {0x7fffffff, 65535, 65535},
      .totalConstMem = 65536,
      .major = gpu->major,
      .minor = gpu->minor,
      .textureAlignment = 512,
      .texturePitchAlignment = 32,
      .multiProcessorCount = gpu->multiprocessors,
      .canMapHostMemory = 1,
      .concurrentKernels = 1,
      .ECCEnabled = 1,
      .pciBusID = gpu->places[device] + 1,
      .asyncEngineCount = 3,
      .unifiedAddressing = 1,
      .memoryBusWidth = 5120,
      .l2CacheSize = 50 << 20,
      .maxThreadsPerMultiProcessor = gpu->threads_per_multiprocessor,
      .streamPrioritiesSupported = 1,
      .sharedMemPerMultiprocessor = gpu->shared_per_multiprocessor,
      .regsPerMultiprocessor = 65536,
      .managedMemory = 1,
      .computePreemptionSupported = 1,
      .cooperativeLaunch = 1,
      .sharedMemPerBlockOptin = gpu->shared_per_block,
      .maxBlocksPerMultiProcessor = gpu->blocks_per_multiprocessor,
      .reservedSharedMemPerBlock = PHANTOM_SHARED_RESERVED,
      .hostRegisterSupported = 1,
      .clusterLaunch = gpu->major >= 9,
  };
  snprintf(properties->name, sizeof properties->name, "%s", gpu->name);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr attribute, int device) {
  struct cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error) return error;
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = properties.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxBlockDimX:
      *value = properties.maxThreadsDim[0];
      break;
    case cudaDevAttrMaxBlockDimY:
      *value = properties.maxThreadsDim[1];
      break;
    case cudaDevAttrMaxBlockDimZ:
      *value = properties.maxThreadsDim[2];
      break;
    case cudaDevAttrMaxGridDimX:
      *value = properties.maxGridSize[0];
      break;
    case cudaDevAttrMaxGridDimY:
      *value = properties.maxGridSize[1];
      break;
    case cudaDevAttrMaxGridDimZ:
      *value = properties.maxGridSize[2];
      break;
    case cudaDevAttrWarpSize:
      *value = properties.warpSize;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = properties.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      *value = properties.maxBlocksPerMultiProcessor;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = (int)properties.sharedMemPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = (int)properties.sharedMemPerBlockOptin;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = (int)properties.sharedMemPerMultiprocessor;
      break;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      *value = PHANTOM_SHARED_RESERVED;
      break;
    case cudaDevAttrMaxRegistersPerBlock:
      *value = properties.regsPerBlock;
      break;
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      *value = properties.regsPerMultiprocessor;
      break;
    case cudaDevAttrL2CacheSize:
      *value = properties.l2CacheSize;
      break;
    case cudaDevAttrUnifiedAddressing:
      *value = properties.unifiedAddressing;
      break;
    case cudaDevAttrCooperativeLaunch:
      *value = properties.cooperativeLaunch;
      break;
    default:
      *value = 0;  // features that are not pretended
  }
  return cudaSuccess;
}
