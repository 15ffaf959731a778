// Copies and fills: what comes from the device is zeros, what goes there is not read. In a script's process what is
// small is kept there.
#include <cuda_runtime_api.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "phantom.h"

// Whole pages of memory that was registered are given back, which makes them zeros too: states and weights that lie in
// the host's memory may be more than this machine has.
static void put_zeros(char* to, size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *first = (char*)(((size_t)to + page - 1) / page * page), *end = (char*)((size_t)(to + bytes) / page * page);
  if (first >= end || !phantom_is_registered(to, bytes) || madvise(first, (size_t)(end - first), MADV_DONTNEED)) {
    memset(to, 0, bytes);
    return;
  }
  memset(to, 0, (size_t)(first - to));
  memset(end, 0, (size_t)(to + bytes - end));
}

static __thread int vouched;
void phantom_vouch(int known) { vouched = known; }
int phantom_vouched(void) { return vouched; }

static phantom_reader* reader;
void phantom_on_read(phantom_reader* of_script) { reader = of_script; }

// What would come from the device is zeros: a script's agent reads what is known itself. What would go there is not
// even read, but for little that is kept: it may be mapped from a file that is larger than this machine's memory.
static cudaError_t copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return cudaSuccess;
  if (!phantom_reaches(to, bytes) || !phantom_reaches(from, bytes)) return phantom_fail(cudaErrorInvalidValue);
  if (phantom_is_device(to) != phantom_is_device(from) && phantom_wait(NULL))
    return phantom_fail(cudaErrorStreamCaptureUnsupported);
  if (phantom_is_device(to) || phantom_is_device(from)) phantom_launched();
  if (phantom_is_device(from) && !phantom_is_device(to) && reader && reader(to, from, bytes)) return cudaSuccess;
  if (phantom_is_device(to)) {
    if (bytes <= phantom_gpu()->kept_bytes || vouched == PHANTOM_KNOWN) memmove(to, from, bytes);
    return cudaSuccess;
  }
  if (phantom_is_device(from)) {
    put_zeros(to, bytes);
  } else {
    memmove(to, from, bytes);
  }
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind) {
  (void)kind;
  return copy(to, from, bytes);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
  (void)kind;
  phantom_goes_to(stream);
  return copy(to, from, bytes);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
  (void)kind;
  phantom_goes_to(stream);
  cudaError_t error = cudaSuccess;
  for (size_t row = 0; row < height && !error; row++) {
    error = copy((char*)to + row * to_pitch, (const char*)from + row * from_pitch, width);
  }
  return error;
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                cudaStream_t stream) {
  (void)to_device, (void)from_device;
  phantom_goes_to(stream);
  return copy(to, from, bytes);
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               enum cudaMemcpyKind kind) {
  (void)symbol, (void)from, (void)bytes, (void)offset, (void)kind;
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  phantom_launched();
  if (!phantom_reaches(to, bytes)) return phantom_fail(cudaErrorInvalidValue);
  if (bytes <= phantom_gpu()->kept_bytes) memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  phantom_goes_to(stream);
  return cudaMemset(to, value, bytes);
}
cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  (void)symbol;
  *pointer = phantom_symbol();
  return cudaSuccess;
}
