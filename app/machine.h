// What this machine is and has left: its CPU, memory, limits of the container, and GPUs. No LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace fathom::app {

struct Cpu {
  std::string model;
  int64_t cores = 0;                      // that this process may use
  std::vector<std::string> instructions;  // of those that matter here: avx2, avx512f, avx512_bf16, amx_bf16, …
};
Cpu this_cpu();

int64_t total_memory_bytes();
// What a process here may still take: free memory and caches, less if the container's limit is nearer,
// or that of the address space.
int64_t available_memory_bytes();
// The container's limit (cgroup v2 or v1); nothing if there is none.
std::optional<int64_t> memory_limit_bytes();

int64_t resident_bytes();       // of this process, now
int64_t peak_resident_bytes();  // its largest so far

struct Gpu {
  std::string name;
  std::string compute_capability;
  int64_t memory_bytes = 0;
  bool maps_memory = true;  // its driver can map physical memory where it likes: what expandable segments need
};
// What NVIDIA's driver lists; empty without a driver or a GPU. LibTorch and CUDA's runtime are not needed.
std::vector<Gpu> this_gpus();

// "date" and "machine", as "run" of memory.json has them.
Json facts_of_now();

}  // namespace fathom::app
