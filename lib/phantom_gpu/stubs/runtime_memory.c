// Device memory that is only address space, pinned host memory that is ordinary memory, and copies that move nothing.
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "phantom.h"

// One contiguous piece of the pretended device's address space. Kept sorted by address; the gaps are free.
struct segment {
  struct segment* next;
  char* begin;
  size_t bytes;
  size_t physical_bytes;  // counted against the device's memory; 0 for reservations of the driver interface
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char* space;
static size_t space_bytes = (size_t)64 << 40;
static struct segment* segments;
static size_t used_bytes;
static unsigned long long random_state;

__attribute__((constructor(102))) static void reserve_space(void) {
  // Under `ulimit -v` less must do, but never so little that it and not the pretended memory runs out. The protection
  // keeps anybody from reading what is not there.
  for (; space_bytes / 2 >= phantom_gpu()->memory_bytes; space_bytes /= 2) {
    char* start = mmap(NULL, space_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) continue;
    space = (char*)(((uintptr_t)start + PHANTOM_GRANULE - 1) & ~(uintptr_t)(PHANTOM_GRANULE - 1));
    space_bytes -= PHANTOM_GRANULE;
    break;
  }
  random_state = phantom_gpu()->placement;
  if (!space) {  // LibTorch will only say that there is no GPU
    fprintf(stderr, "phantom: the limit on address space (ulimit -v) is too small to pretend %zu bytes of memory\n",
            phantom_gpu()->memory_bytes);
  }
}

// ---- segments where a real driver once put them ----

// What cudaMalloc hands out, in this order, instead of choosing: read from a trace (lib/ledger/cuda/trace.h). Addresses
// count from the lowest of them, because only their order matters to the caching allocator.
static struct listed {
  size_t bytes;
  uintptr_t address;
} * listed;
static size_t listed_count, listed_taken;

__attribute__((constructor(103))) static void read_segments(void) {
  const char* path = getenv("FATHOM_PHANTOM_SEGMENTS");
  if (!path || !*path) return;
  FILE* file = fopen(path, "r");
  if (!file) {
    fprintf(stderr, "phantom: the list of segments %s cannot be read\n", path);
    _exit(3);
  }
  uintptr_t lowest = UINTPTR_MAX;
  char line[256];
  while (fgets(line, sizeof line, file)) {
    struct listed segment;
    if (sscanf(line, "segment_alloc %zu %*u %lu", &segment.bytes, &segment.address) != 2) continue;
    struct listed* longer = realloc(listed, (listed_count + 1) * sizeof *listed);
    if (!longer) abort();
    listed = longer;
    listed[listed_count++] = segment;
    if (segment.address < lowest) lowest = segment.address;
  }
  fclose(file);
  for (size_t i = 0; i < listed_count; i++) listed[i].address -= lowest & ~(uintptr_t)(PHANTOM_GRANULE - 1);
}

// The address that the list has for the next segment. A run that asks for other segments than the list's is not the run
// that was recorded: the process ends and says so.
static char* listed_address(size_t bytes) {
  if (listed_taken == listed_count) {
    fprintf(stderr, "phantom: a segment of %zu bytes is asked for after the %zu of the list\n", bytes, listed_count);
    _exit(3);
  }
  const struct listed* next = &listed[listed_taken++];
  if (next->address > space_bytes - bytes) {
    fprintf(stderr, "phantom: the listed segments are too far apart for the address space\n");
    _exit(3);
  }
  if (next->bytes != bytes) {
    fprintf(stderr, "phantom: segment %zu is asked for with %zu bytes, in the list it has %zu\n", listed_taken, bytes,
            next->bytes);
    _exit(3);
  }
  return space + next->address;
}

bool phantom_has_address_space(void) { return space != NULL; }

static size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// splitmix64 (Steele, Lea, Flood 2014): the same addresses for the same seed and the same requests.
static unsigned long long next_random(void) {
  unsigned long long z = random_state += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// Where the first free `bytes` at or above `from` lie; *link is what will point to them. Null if there are none.
static char* find_gap(char* from, size_t bytes, size_t alignment, struct segment*** link) {
  struct segment** at = &segments;
  while (*at && (*at)->begin + (*at)->bytes <= from) at = &(*at)->next;
  for (char* begin = from;; at = &(*at)->next) {
    begin = (char*)round_up((uintptr_t)begin, alignment);
    const char* end = *at ? (*at)->begin : space + space_bytes;
    if (begin <= end && bytes <= (size_t)(end - begin)) {
      *link = at;
      return begin;
    }
    if (!*at) return NULL;
    begin = (*at)->begin + (*at)->bytes;
  }
}

static void* place(size_t asked, size_t alignment, size_t physical_bytes) {
  const size_t bytes = round_up(asked ? asked : 1, PHANTOM_GRANULE);
  if (alignment < PHANTOM_GRANULE) alignment = PHANTOM_GRANULE;
  if (!space || bytes > space_bytes) return NULL;
  struct segment** link = NULL;
  char* begin = NULL;
  if (listed_count && physical_bytes) {
    char* wanted = listed_address(asked);
    begin = find_gap(wanted, bytes, 1, &link);
    if (begin != wanted) {
      fprintf(stderr, "phantom: segment %zu of the list lies upon another one\n", listed_taken);
      _exit(3);
    }
  } else if (phantom_gpu()->placement) {
    const size_t positions = (space_bytes - bytes) / PHANTOM_GRANULE + 1;
    begin = find_gap(space + next_random() % positions * PHANTOM_GRANULE, bytes, alignment, &link);
  }
  if (!begin) begin = find_gap(space, bytes, alignment, &link);
  struct segment* segment = begin ? malloc(sizeof *segment) : NULL;
  if (!segment) return NULL;
  *segment = (struct segment){.next = *link, .begin = begin, .bytes = bytes, .physical_bytes = physical_bytes};
  *link = segment;
  return begin;
}

static size_t free_bytes(void) { return phantom_gpu()->memory_bytes - phantom_gpu()->taken_bytes - used_bytes; }

static bool take(size_t bytes) {
  if (bytes > free_bytes()) return false;
  used_bytes += bytes;
  return true;
}

// Removes the segment that begins there; false if there is none.
static bool remove_segment(const void* begin) {
  for (struct segment** link = &segments; *link; link = &(*link)->next) {
    if ((*link)->begin != begin) continue;
    struct segment* segment = *link;
    *link = segment->next;
    used_bytes -= segment->physical_bytes;
    free(segment);
    return true;
  }
  return false;
}

bool phantom_pretend(size_t memory_bytes, size_t taken_bytes, unsigned long long placement) {
  pthread_mutex_lock(&mutex);
  const bool possible = !segments && !used_bytes && space && space_bytes / 2 >= memory_bytes;
  if (possible) {
    phantom_set(memory_bytes, taken_bytes, placement);
    random_state = placement;
    listed_taken = 0;
  }
  pthread_mutex_unlock(&mutex);
  return possible;
}

void* phantom_reserve(size_t bytes, size_t alignment) {
  pthread_mutex_lock(&mutex);
  void* begin = place(bytes, alignment, 0);
  pthread_mutex_unlock(&mutex);
  return begin;
}

void phantom_unreserve(void* begin) {
  pthread_mutex_lock(&mutex);
  remove_segment(begin);
  pthread_mutex_unlock(&mutex);
}

bool phantom_take(size_t bytes) {
  pthread_mutex_lock(&mutex);
  const bool taken = take(bytes);
  pthread_mutex_unlock(&mutex);
  return taken;
}

void phantom_give_back(size_t bytes) {
  pthread_mutex_lock(&mutex);
  used_bytes -= bytes;
  pthread_mutex_unlock(&mutex);
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  *pointer = NULL;
  if (bytes == 0) return cudaSuccess;
  if (bytes > phantom_gpu()->memory_bytes) return phantom_fail(cudaErrorMemoryAllocation);
  const size_t physical_bytes = round_up(bytes, PHANTOM_GRANULE);
  pthread_mutex_lock(&mutex);
  if (take(physical_bytes)) {
    *pointer = place(bytes, PHANTOM_GRANULE, physical_bytes);
    if (!*pointer) used_bytes -= physical_bytes;
  }
  pthread_mutex_unlock(&mutex);
  if (phantom_gpu()->log > 1) fprintf(stderr, "phantom: cudaMalloc(%zu) = %p\n", bytes, *pointer);
  return *pointer ? cudaSuccess : phantom_fail(cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void* pointer) {
  if (!pointer) return cudaSuccess;
  pthread_mutex_lock(&mutex);
  const bool found = remove_segment(pointer);
  pthread_mutex_unlock(&mutex);
  if (phantom_gpu()->log > 1) fprintf(stderr, "phantom: cudaFree(%p)\n", pointer);
  return found ? cudaSuccess : phantom_fail(cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(size_t* now_free, size_t* total) {
  pthread_mutex_lock(&mutex);
  *total = phantom_gpu()->memory_bytes;
  *now_free = free_bytes();
  pthread_mutex_unlock(&mutex);
  return cudaSuccess;
}

// ---- pinned host memory ----

struct pinned {
  struct pinned* next;
  char* begin;
  size_t bytes;
  bool owned;
};
static struct pinned* pinned_blocks;

static cudaError_t pin(void* begin, size_t bytes, bool owned) {
  struct pinned* block = malloc(sizeof *block);
  if (!block) return phantom_fail(cudaErrorMemoryAllocation);
  pthread_mutex_lock(&mutex);
  *block = (struct pinned){.next = pinned_blocks, .begin = begin, .bytes = bytes, .owned = owned};
  pinned_blocks = block;
  pthread_mutex_unlock(&mutex);
  return cudaSuccess;
}

static cudaError_t unpin(const void* begin) {
  struct pinned* block = NULL;
  pthread_mutex_lock(&mutex);
  for (struct pinned** link = &pinned_blocks; *link; link = &(*link)->next) {
    if ((*link)->begin != begin) continue;
    block = *link;
    *link = block->next;
    break;
  }
  pthread_mutex_unlock(&mutex);
  if (!block) return phantom_fail(cudaErrorInvalidValue);
  if (block->owned) free(block->begin);
  free(block);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  (void)flags;
  if (posix_memalign(pointer, 4096, bytes ? bytes : 1)) return phantom_fail(cudaErrorMemoryAllocation);
  return pin(*pointer, bytes, true);
}
cudaError_t cudaFreeHost(void* pointer) { return unpin(pointer); }
cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
  (void)flags;
  return pin(pointer, bytes, false);
}
cudaError_t cudaHostUnregister(void* pointer) { return unpin(pointer); }

static bool is_device(const void* pointer) {
  return (const char*)pointer >= space && (const char*)pointer < space + space_bytes;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes* attributes, const void* pointer) {
  memset(attributes, 0, sizeof *attributes);
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = -1;
  if (is_device(pointer)) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->device = 0;
    attributes->devicePointer = (void*)pointer;
    return cudaSuccess;
  }
  pthread_mutex_lock(&mutex);
  for (const struct pinned* block = pinned_blocks; block; block = block->next) {
    if ((const char*)pointer < block->begin || (const char*)pointer >= block->begin + block->bytes) continue;
    attributes->type = cudaMemoryTypeHost;
    attributes->device = 0;
    attributes->hostPointer = attributes->devicePointer = (void*)pointer;
    break;
  }
  pthread_mutex_unlock(&mutex);
  return cudaSuccess;
}

// ---- copies ----

// True if a real device could reach all of it: host memory, or inside one segment.
static bool reachable(const void* pointer, size_t bytes) {
  if (!is_device(pointer)) return true;
  const char* begin = pointer;
  bool inside = false;
  pthread_mutex_lock(&mutex);
  for (const struct segment* segment = segments; segment && segment->begin <= begin; segment = segment->next) {
    inside = begin + bytes <= segment->begin + segment->bytes;
  }
  pthread_mutex_unlock(&mutex);
  return inside;
}

static bool is_registered(const char* begin, size_t bytes) {
  bool inside = false;
  pthread_mutex_lock(&mutex);
  for (const struct pinned* block = pinned_blocks; block && !inside; block = block->next) {
    inside = !block->owned && begin >= block->begin && begin + bytes <= block->begin + block->bytes;
  }
  pthread_mutex_unlock(&mutex);
  return inside;
}

// Whole pages of memory that was registered are given back, which makes them zeros too: states and weights that lie in
// the host's memory may be more than this machine has.
static void put_zeros(char* to, size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *first = (char*)round_up((size_t)to, page), *end = (char*)((size_t)(to + bytes) / page * page);
  if (first >= end || !is_registered(to, bytes) || madvise(first, (size_t)(end - first), MADV_DONTNEED)) {
    memset(to, 0, bytes);
    return;
  }
  memset(to, 0, (size_t)(first - to));
  memset(end, 0, (size_t)(to + bytes - end));
}

// What would come from the device is zeros. What would go there is not even read: it may be mapped from a file that is
// larger than this machine's memory.
static cudaError_t copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return cudaSuccess;
  if (!reachable(to, bytes) || !reachable(from, bytes)) return phantom_fail(cudaErrorInvalidValue);
  if (is_device(to) != is_device(from) && phantom_wait(NULL)) return phantom_fail(cudaErrorStreamCaptureUnsupported);
  if (is_device(to) || is_device(from)) phantom_launched();
  if (is_device(to)) return cudaSuccess;
  if (is_device(from)) {
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
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               enum cudaMemcpyKind kind) {
  (void)symbol, (void)from, (void)bytes, (void)offset, (void)kind;
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  (void)value;
  phantom_launched();
  return reachable(to, bytes) ? cudaSuccess : phantom_fail(cudaErrorInvalidValue);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  phantom_goes_to(stream);
  return cudaMemset(to, value, bytes);
}
cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  (void)symbol;
  *pointer = space + space_bytes - PHANTOM_GRANULE;
  return cudaSuccess;
}
