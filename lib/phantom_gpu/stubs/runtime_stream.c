// Streams and events on which everything has already happened, what is recorded of a stream in place of happening, the
// last error, and the door to the driver's functions.
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "phantom.h"

static __thread cudaError_t last_error;

int phantom_fail(int error) {
  if (error) last_error = (cudaError_t)error;
  return error;
}

void* phantom_handle(void) { return calloc(1, 64); }

cudaError_t cudaGetLastError(void) {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError(void) { return last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInitializationError:
      return "cudaErrorInitializationError";
    case cudaErrorNotSupported:
      return "cudaErrorNotSupported";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    default:
      return "unrecognized error code";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInitializationError:
      return "no address space for a phantom GPU (see ulimit -v)";
    case cudaErrorNotSupported:
      return "the phantom GPU cannot do this";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    default:
      return "unrecognized error code";
  }
}

static cudaError_t make_handle(void** handle) {
  *handle = phantom_handle();
  return *handle ? cudaSuccess : phantom_fail(cudaErrorMemoryAllocation);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return make_handle((void**)stream); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  (void)flags, (void)priority;
  return make_handle((void**)stream);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  free(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  (void)stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return phantom_wait(stream); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  (void)stream, (void)event, (void)flags;
  return cudaSuccess;
}
// One stream at a time is recorded, by one thread; what that gives the device meanwhile counts as recorded. As on a
// device, it may wait for nothing then. Copies of the host's memory, which would be read at every replay, and work on
// other streams, which no replay would do, break the recording too.
static struct {
  cudaStream_t stream;  // null: none is recorded
  pthread_t thread;
  unsigned long long id;
  long launches;
  bool broken;
} recording;

static bool records(void) { return recording.stream && pthread_equal(recording.thread, pthread_self()); }

bool phantom_records(void) {
  if (!records()) return false;
  recording.launches++;
  return true;
}
int phantom_wait(void* stream) {
  if (!records() || (stream && stream != recording.stream)) return cudaSuccess;
  recording.broken = true;
  return phantom_fail(cudaErrorStreamCaptureUnsupported);
}
void phantom_goes_to(void* stream) {
  if (records() && stream != recording.stream) recording.broken = true;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  (void)mode;
  const bool ordinary = stream && stream != cudaStreamLegacy && stream != cudaStreamPerThread;
  if (!ordinary || recording.stream) return phantom_fail(cudaErrorStreamCaptureUnsupported);
  recording.thread = pthread_self();
  recording.stream = stream;
  recording.id++;
  recording.launches = 0;
  recording.broken = false;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = NULL;
  if (!recording.stream || stream != recording.stream) return phantom_fail(cudaErrorInvalidValue);
  recording.stream = NULL;
  if (recording.broken) return phantom_fail(cudaErrorStreamCaptureInvalidated);
  const cudaError_t error = make_handle((void**)graph);
  if (!error) *(long*)*graph = recording.launches;
  return error;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus* status) {
  *status = !recording.stream || stream != recording.stream ? cudaStreamCaptureStatusNone
            : recording.broken                              ? cudaStreamCaptureStatusInvalidated
                                                            : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  if (edges) *edges = NULL;
#else  // cuda_runtime_api.h makes it cudaStreamGetCaptureInfo_v2, as LibTorch calls it too
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies, size_t* count) {
#endif
  enum cudaStreamCaptureStatus now;
  cudaStreamIsCapturing(stream, &now);
  if (status) *status = now;
  if (id) *id = now == cudaStreamCaptureStatusNone ? 0 : recording.id;
  if (graph) *graph = NULL;
  if (dependencies) *dependencies = NULL;
  if (count) *count = 0;
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  if (nodes) return phantom_fail(cudaErrorNotSupported);
  *count = (size_t) * (long*)graph;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  free(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  (void)graph, (void)flags;
  return make_handle((void**)executable);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  free(executable);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  (void)executable, (void)stream;
  phantom_launched();
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode* mode) {
  (void)mode;
  return cudaSuccess;
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned flags) {
  (void)flags;
  callback(stream, cudaSuccess, data);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return make_handle((void**)event); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  (void)flags;
  return make_handle((void**)event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  free(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  (void)event, (void)stream;
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  (void)event, (void)stream, (void)flags;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  (void)event;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  (void)event;
  return phantom_wait(NULL);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  (void)start, (void)end;
  *milliseconds = phantom_gpu()->kept_bytes ? 1 : 0;  // scripts that time kernels divide by it
  return cudaSuccess;
}

// LibTorch asks for all driver functions that it may ever call, so the ones that the stub of libcuda lacks must exist
// too.
static int unsupported_driver_function(void) { return 801; /* CUDA_ERROR_NOT_SUPPORTED */ }

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult* result) {
  (void)version, (void)flags;
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  *function = driver ? dlsym(driver, symbol) : NULL;
  if (driver) dlclose(driver);
  if (!*function) *function = (void*)unsupported_driver_function;
  if (result) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
#if CUDART_VERSION < 13000
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, result);
}
#endif
