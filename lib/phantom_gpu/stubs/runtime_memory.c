// Device memory that is only address space, and pinned host memory that is ordinary memory.
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

// One contiguous piece of a pretended device's address space. Kept sorted by address; the gaps are free.
struct segment {
  struct segment* next;
  char* begin;
  size_t bytes;
  size_t physical_bytes;  // counted against the device's memory; 0 for reservations of the driver interface
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char* space;
static size_t space_bytes = (size_t)64 << 40;
static size_t part_bytes;  // of it, for each device
static struct segment* segments;
static size_t used_bytes[PHANTOM_MOST_DEVICES];
static unsigned long long random_state;

__attribute__((constructor(102))) static void reserve_space(void) {
  // Under `ulimit -v` less must do, but never so little that it and not the pretended memory runs out. The protection
  // keeps anybody from reading what is not there, but for scripts, some of whose values are.
  const int protection = phantom_gpu()->kept_bytes ? PROT_READ | PROT_WRITE : PROT_NONE;
  const size_t devices = phantom_gpu()->devices ? (size_t)phantom_gpu()->devices : 1;
  for (; space_bytes / devices / 2 >= phantom_gpu()->memory_bytes; space_bytes /= 2) {
    char* start = mmap(NULL, space_bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) continue;
    // A page that is written is to cost a page, in this process alone.
    madvise(start, space_bytes, MADV_NOHUGEPAGE);
    madvise(start, space_bytes, MADV_DONTFORK);
    madvise(start, space_bytes, MADV_DONTDUMP);
    space = (char*)(((uintptr_t)start + PHANTOM_GRANULE - 1) & ~(uintptr_t)(PHANTOM_GRANULE - 1));
    space_bytes -= PHANTOM_GRANULE;
    part_bytes = space_bytes / devices / PHANTOM_GRANULE * PHANTOM_GRANULE;
    break;
  }
  random_state = phantom_gpu()->placement;
  if (!space) {  // LibTorch will only say that there is no GPU
    fprintf(stderr,
            "phantom: the limit on address space (ulimit -v) is too small to pretend %zu × %zu bytes of memory\n",
            devices, phantom_gpu()->memory_bytes);
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
  if (next->address > part_bytes - bytes) {
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

// Where the first free `bytes` between `from` and `last` lie; *link is what will point to them. Null if there are none.
static char* find_gap(char* from, const char* last, size_t bytes, size_t alignment, struct segment*** link) {
  struct segment** at = &segments;
  while (*at && (*at)->begin + (*at)->bytes <= from) at = &(*at)->next;
  for (char* begin = from;; at = &(*at)->next) {
    begin = (char*)round_up((uintptr_t)begin, alignment);
    const char* end = *at && (*at)->begin < last ? (*at)->begin : last;
    if (begin <= end && bytes <= (size_t)(end - begin)) {
      *link = at;
      return begin;
    }
    if (end == last) return NULL;
    begin = (*at)->begin + (*at)->bytes;
  }
}

static void* place(int device, size_t asked, size_t alignment, size_t physical_bytes) {
  const size_t bytes = round_up(asked ? asked : 1, PHANTOM_GRANULE);
  if (alignment < PHANTOM_GRANULE) alignment = PHANTOM_GRANULE;
  if (!space || bytes > part_bytes) return NULL;
  char* first = space + (size_t)device * part_bytes;
  const char* last = first + part_bytes;
  struct segment** link = NULL;
  char* begin = NULL;
  if (listed_count && physical_bytes) {
    char* wanted = listed_address(asked);
    begin = find_gap(wanted, last, bytes, 1, &link);
    if (begin != wanted) {
      fprintf(stderr, "phantom: segment %zu of the list lies upon another one\n", listed_taken);
      _exit(3);
    }
  } else if (phantom_gpu()->placement) {
    const size_t positions = (part_bytes - bytes) / PHANTOM_GRANULE + 1;
    begin = find_gap(first + next_random() % positions * PHANTOM_GRANULE, last, bytes, alignment, &link);
  }
  if (!begin) begin = find_gap(first, last, bytes, alignment, &link);
  struct segment* segment = begin ? malloc(sizeof *segment) : NULL;
  if (!segment) return NULL;
  *segment = (struct segment){.next = *link, .begin = begin, .bytes = bytes, .physical_bytes = physical_bytes};
  *link = segment;
  return begin;
}

static size_t free_bytes(int device) {
  return phantom_gpu()->memory_bytes - phantom_gpu()->taken_bytes - used_bytes[device];
}

// Where the script's processes are followed (lib/phantom_gpu/follow): what this one has of a GPU of the machine.
__attribute__((weak)) void follow_device(int place, size_t bytes);

static void use(int device, size_t bytes) {
  // What the parent of a fork has is not the child's.
  static size_t inherited_bytes[PHANTOM_MOST_DEVICES];
  static pid_t process;
  if (process != getpid()) {
    if (process) memcpy(inherited_bytes, used_bytes, sizeof inherited_bytes);
    process = getpid();
  }
  used_bytes[device] = bytes;
  const size_t inherited = inherited_bytes[device];
  if (follow_device) follow_device(phantom_gpu()->places[device], bytes > inherited ? bytes - inherited : 0);
}

static bool take(int device, size_t bytes) {
  if (bytes > free_bytes(device)) return false;
  use(device, used_bytes[device] + bytes);
  return true;
}
static void give_back(int device, size_t bytes) { use(device, used_bytes[device] - bytes); }

// Removes the segment that begins there; false if there is none.
static bool remove_segment(const void* begin) {
  for (struct segment** link = &segments; *link; link = &(*link)->next) {
    if ((*link)->begin != begin) continue;
    struct segment* segment = *link;
    *link = segment->next;
    if (segment->physical_bytes) give_back(phantom_device_of(begin), segment->physical_bytes);
    if (phantom_gpu()->kept_bytes) madvise(segment->begin, segment->bytes, MADV_DONTNEED);
    free(segment);
    return true;
  }
  return false;
}

bool phantom_pretend(size_t memory_bytes, size_t taken_bytes, unsigned long long placement) {
  pthread_mutex_lock(&mutex);
  bool possible = !segments && space && part_bytes / 2 >= memory_bytes;
  for (int device = 0; device < phantom_gpu()->devices; device++) possible = possible && !used_bytes[device];
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
  void* begin = place(phantom_device(), bytes, alignment, 0);
  pthread_mutex_unlock(&mutex);
  return begin;
}

void phantom_unreserve(void* begin) {
  pthread_mutex_lock(&mutex);
  remove_segment(begin);
  pthread_mutex_unlock(&mutex);
}

bool phantom_take(int device, size_t bytes) {
  pthread_mutex_lock(&mutex);
  const bool taken = take(device, bytes);
  pthread_mutex_unlock(&mutex);
  return taken;
}

void phantom_give_back(int device, size_t bytes) {
  pthread_mutex_lock(&mutex);
  give_back(device, bytes);
  pthread_mutex_unlock(&mutex);
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  *pointer = NULL;
  if (bytes == 0) return cudaSuccess;
  if (bytes > phantom_gpu()->memory_bytes) return phantom_fail(cudaErrorMemoryAllocation);
  const size_t physical_bytes = round_up(bytes, PHANTOM_GRANULE);
  const int device = phantom_device();
  pthread_mutex_lock(&mutex);
  if (take(device, physical_bytes)) {
    *pointer = place(device, bytes, PHANTOM_GRANULE, physical_bytes);
    if (!*pointer) give_back(device, physical_bytes);
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

// Lies with the host until a kernel touches it, and goes back there when the device is full: it takes none of the
// device's memory that others could want.
cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned flags) {
  (void)flags;
  *pointer = phantom_reserve(bytes, PHANTOM_GRANULE);
  return *pointer ? cudaSuccess : phantom_fail(cudaErrorMemoryAllocation);
}
#if CUDART_VERSION >= 13000
cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, struct cudaMemLocation to, unsigned flags,
                                 cudaStream_t stream) {
  (void)flags;
#else
cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, int to, cudaStream_t stream) {
#endif
  (void)pointer, (void)bytes, (void)to, (void)stream;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* now_free, size_t* total) {
  pthread_mutex_lock(&mutex);
  *total = phantom_gpu()->memory_bytes;
  *now_free = free_bytes(phantom_device());
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

bool phantom_is_device(const void* pointer) {
  return (const char*)pointer >= space && (const char*)pointer < space + space_bytes;
}

int phantom_device_of(const void* pointer) {
  if (!phantom_is_device(pointer)) return -1;
  const size_t device = (size_t)((const char*)pointer - space) / part_bytes;
  return device < (size_t)phantom_gpu()->devices ? (int)device : phantom_gpu()->devices - 1;  // the rest of a division
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes* attributes, const void* pointer) {
  memset(attributes, 0, sizeof *attributes);
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = -1;
  if (phantom_is_device(pointer)) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->device = phantom_device_of(pointer);
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

bool phantom_reaches(const void* pointer, size_t bytes) {
  if (!phantom_is_device(pointer)) return true;
  const char* begin = pointer;
  bool inside = false;
  pthread_mutex_lock(&mutex);
  for (const struct segment* segment = segments; segment && segment->begin <= begin; segment = segment->next) {
    inside = begin + bytes <= segment->begin + segment->bytes;
  }
  pthread_mutex_unlock(&mutex);
  return inside;
}

bool phantom_is_registered(const char* begin, size_t bytes) {
  bool inside = false;
  pthread_mutex_lock(&mutex);
  for (const struct pinned* block = pinned_blocks; block && !inside; block = block->next) {
    inside = !block->owned && begin >= block->begin && begin + bytes <= block->begin + block->bytes;
  }
  pthread_mutex_unlock(&mutex);
  return inside;
}

void* phantom_symbol(void) { return space + space_bytes - PHANTOM_GRANULE; }
