// Counts the bytes of tensors in another program: preload it, and every block that LibTorch's CPU allocator takes is
// counted.
//
// That allocator (libc10.so, DefaultCPUAllocator) asks posix_memalign for every tensor and gives back with free. Both
// are interposed; only blocks asked for from within libc10.so are counted, so that Python's, NumPy's and oneDNN's own
// memory is left out. Sizes are those asked for. The counters are read with ctypes: counted_live_bytes() and so on. cc
// -O2 -fPIC -shared -o libcount_tensors.so count_tensors.c
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// glibc's own entries: calling them needs no dlsym, which may itself allocate.
extern void* __libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void* block);

#define SLOTS (1u << 20)
#define MINIMUM_ALIGNMENT 64  // of LibTorch's blocks; anything less is not looked up

struct slot {
  uintptr_t block;
  size_t bytes;
};
static struct slot slots[SLOTS];
static size_t used;
static int64_t live_bytes, peak_bytes, allocations;
static atomic_flag busy = ATOMIC_FLAG_INIT;
static atomic_uintptr_t c10_begin, c10_end;

static void lock(void) {
  while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) sched_yield();
}
static void unlock(void) { atomic_flag_clear_explicit(&busy, memory_order_release); }

static uint32_t home_of(uintptr_t block) { return (uint32_t)((block >> 6) * 0x9E3779B97F4A7C15ull >> 44); }

// The slot that holds `block`, or the empty one where it belongs. The caller holds the lock.
static uint32_t find(uintptr_t block) {
  uint32_t at = home_of(block);
  while (slots[at].block != 0 && slots[at].block != block) at = (at + 1) & (SLOTS - 1);
  return at;
}

// Closes the gap that a removal leaves in a run of linear probing.
static void close_gap(uint32_t gap) {
  for (uint32_t at = (gap + 1) & (SLOTS - 1); slots[at].block != 0; at = (at + 1) & (SLOTS - 1)) {
    uint32_t home = home_of(slots[at].block);
    if (((at - home) & (SLOTS - 1)) >= ((at - gap) & (SLOTS - 1))) {
      slots[gap] = slots[at];
      gap = at;
    }
  }
  slots[gap].block = 0;
}

static int remember_c10(struct dl_phdr_info* info, size_t size, void* unused) {
  (void)size, (void)unused;
  const char* slash = strrchr(info->dlpi_name, '/');
  if (strcmp(slash ? slash + 1 : info->dlpi_name, "libc10.so") != 0) return 0;
  uintptr_t end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    uintptr_t last = info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    if (info->dlpi_phdr[i].p_type == PT_LOAD && last > end) end = last;
  }
  c10_end = info->dlpi_addr + end;
  c10_begin = info->dlpi_addr;
  return 1;
}

static int called_by_c10(const void* caller) {
  if (c10_begin == 0) dl_iterate_phdr(remember_c10, NULL);
  return (uintptr_t)caller >= c10_begin && (uintptr_t)caller < c10_end;
}

int posix_memalign(void** block, size_t alignment, size_t bytes) {
  const void* caller = __builtin_return_address(0);
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  void* taken = __libc_memalign(alignment, bytes);
  if (taken == NULL) return ENOMEM;
  *block = taken;
  if (alignment < MINIMUM_ALIGNMENT || !called_by_c10(caller)) return 0;
  lock();
  if (used > SLOTS / 4 * 3) {
    static const char message[] = "count_tensors: more blocks are alive than its table holds\n";
    if (write(2, message, sizeof message - 1) < 0) _exit(71);
    _exit(70);
  }
  uint32_t at = find((uintptr_t)taken);
  slots[at] = (struct slot){(uintptr_t)taken, bytes};
  ++used, ++allocations;
  live_bytes += (int64_t)bytes;
  if (live_bytes > peak_bytes) peak_bytes = live_bytes;
  unlock();
  return 0;
}

void free(void* block) {
  if (block != NULL && ((uintptr_t)block & (MINIMUM_ALIGNMENT - 1)) == 0) {
    lock();
    uint32_t at = find((uintptr_t)block);
    if (slots[at].block != 0) {
      live_bytes -= (int64_t)slots[at].bytes;
      --used;
      close_gap(at);
    }
    unlock();
  }
  __libc_free(block);
}

int64_t counted_live_bytes(void) { return live_bytes; }
int64_t counted_peak_bytes(void) { return peak_bytes; }
int64_t counted_allocations(void) { return allocations; }
void counted_reset_peak(void) { peak_bytes = live_bytes; }
// The bytes of the block at this address, or -1 where it is not counted (a tensor on a mapped file, for one).
int64_t counted_bytes_at(const void* block) {
  lock();
  uint32_t at = find((uintptr_t)block);
  int64_t bytes = slots[at].block == 0 ? -1 : (int64_t)slots[at].bytes;
  unlock();
  return bytes;
}
