// Environment variables in, the pretended GPU with the limits of its compute capability out.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "phantom.h"

static struct phantom_gpu gpu;

// CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability": resident threads and blocks per
// multiprocessor, KiB of shared memory per multiprocessor. A block may opt in to all but 1 KiB of it (7.5: to all).
static const struct limits {
  int capability, threads, blocks, shared_kib;
} known_limits[] = {
    {75, 1024, 16, 64},  {80, 2048, 32, 164},  {86, 1536, 16, 100},  {87, 1536, 16, 164},  {89, 1536, 24, 100},
    {90, 2048, 32, 228}, {100, 2048, 32, 228}, {103, 2048, 32, 228}, {120, 1536, 24, 100}, {121, 1536, 24, 100},
};

static unsigned long long number(const char* name, unsigned long long otherwise) {
  const char* text = getenv(name);
  return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

// A device runs the newest code of its own generation that is not newer than itself. cub takes its tile sizes, and so
// the sizes of its temporary buffers, from that code's architecture. PHANTOM_ARCHITECTURES: what LibTorch has.
static int newest_architecture(int capability) {
  static const int architectures[] = {PHANTOM_ARCHITECTURES};
  int newest = 0;
  for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
    int candidate = architectures[i];
    if (candidate / 10 == capability / 10 && candidate <= capability && candidate > newest) newest = candidate;
  }
  return newest;
}

__attribute__((constructor(101))) static void read_environment(void) {
  const char* capability_text = getenv("FATHOM_PHANTOM_CAPABILITY");
  if (!capability_text || sscanf(capability_text, "%d.%d", &gpu.major, &gpu.minor) != 2) gpu.major = 9, gpu.minor = 0;
  const int capability = gpu.major * 10 + gpu.minor;
  const char* name = getenv("FATHOM_PHANTOM_NAME");
  snprintf(gpu.name, sizeof gpu.name, "Phantom %s", name ? name : "GPU");
  gpu.multiprocessors = (int)number("FATHOM_PHANTOM_MULTIPROCESSORS", 132);
  gpu.memory_bytes = number("FATHOM_PHANTOM_MEMORY", 80ull << 30);
  gpu.placement = number("FATHOM_PHANTOM_PLACEMENT", 0);
  gpu.log = (int)number("FATHOM_PHANTOM_LOG", 0);
  gpu.architecture = newest_architecture(capability);
  for (size_t i = 0; i < sizeof known_limits / sizeof *known_limits; i++) {
    const struct limits* limits = &known_limits[i];
    if (limits->capability != capability) continue;
    gpu.threads_per_multiprocessor = limits->threads;
    gpu.blocks_per_multiprocessor = limits->blocks;
    gpu.shared_per_multiprocessor = (size_t)limits->shared_kib << 10;
    gpu.shared_per_block = gpu.shared_per_multiprocessor - (capability == 75 ? 0 : PHANTOM_SHARED_RESERVED);
  }
}

const struct phantom_gpu* phantom_gpu(void) { return &gpu; }

void phantom_set(size_t memory_bytes, unsigned long long placement) {
  gpu.memory_bytes = memory_bytes;
  gpu.placement = placement;
}
