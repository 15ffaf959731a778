// What a run takes of the host's memory to load, to train and to save.
#pragma once

#include <cstdint>

#include "arch/run.h"
#include "plan/plan.h"

namespace fathom::plan {

// Bytes of the process in each part of a run, at least: blocks that the allocator keeps for reuse, kernel scratch and
// data come on top (on a CPU, 7 % of a run of 135M parameters, 14 % of the shipped model's). Mapped pages of the
// model's files are the kernel's to take back: they count as resident where there is room, and a run does without them
// where there is not.
struct HostMemory {
  int64_t program = 0;       // code and libraries, before there is a tensor
  int64_t mapped_files = 0;  // weights that are read by mapping, whole
  int64_t load_peak = 0;     // program, tensors on the CPU, the copy in hand; without mapped_files
  int64_t train_peak = 0;    // without kernel scratch, which depends on the machine
  int64_t save_peak = 0;     // with the host's copy of what a GPU saves
  int64_t offloaded = 0;     // part of all three, pinned: Plan::offloaded
};

inline bool offloads(const config::RunConfig& run) { return run.offload_optimizer || run.offload_weights; }
// What lies in the host's memory of optimizer states (offload_optimizer) and of frozen layers (offload_weights).
int64_t offloaded_bytes(const arch::Run& run);
// What comes from there in a step, each way as much of states: all of them once, layers for each pass.
int64_t host_traffic(const arch::Run& run);

// program_bytes: resident before any tensor, on a CPU as measured in this process; of CUDA runs the libraries' code and
// pinned memory add to it. mapped_bytes: of the folder's tensors; 0 for random_init.
HostMemory estimate_host(const arch::Run& run, const Plan& plan, int64_t program_bytes, int64_t mapped_bytes);

// By how many bytes the process's resident memory grows at most in a run on the CPU, from before it is planned: live
// bytes and kernel scratch, the blocks that the allocator keeps for reuse, and what operators and threads take beside
// tensors (kept kernels, code that is paged in, stacks, the allocator of everything else).
int64_t most_resident_growth(const Plan& plan);
// The other way round: the most bytes of tensors and kernel scratch with which it stays within `growth`; 0 at least.
int64_t most_tensors_within(int64_t growth);

}  // namespace fathom::plan
