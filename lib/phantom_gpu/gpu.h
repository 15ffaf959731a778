// The phantom GPU: CUDA's libraries replaced by stubs that swallow kernels and hand out address space, so that
// LibTorch's own CUDA operators and caching allocator run without a GPU.
//
// What it shows exactly: every request for device memory, and what the caching allocator makes of it. What it cannot:
// values (read-backs are zeros, so no control flow may depend on them), time, memory that the context, CUDA's modules
// and libraries take by themselves, sizes that depend on data (nonzero, unique), CUDA graphs, cuDNN.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace fathom::phantom_gpu {

// The GPU that is pretended; configs/gpus.yaml has real ones.
struct PhantomGpu {
  std::string name = "H100";  // the device says "Phantom H100"
  std::string compute_capability = "9.0";
  int64_t multiprocessors = 132;
  int64_t memory_bytes = int64_t{80} << 30;
  bool unlimited = false;  // pretend kUnlimitedBytes instead of memory_bytes: what would a run need that does not fit?
  // 0: segments at ascending addresses. Otherwise the seed of scattered ones: the caching allocator breaks ties between
  // equal blocks by address, so allocated and reserved bytes may differ between placements; requested bytes never do.
  uint64_t placement = 0;
  // A trace of a run on a real GPU (ledger::CudaDevice::trace_to): its segments' addresses instead of a placement. The
  // process ends if the run asks for other segments than that one did. Empty: none.
  std::filesystem::path segments = {};
  bool operator==(const PhantomGpu&) const = default;
};

// Expandable segments reserve 9/8 of it per pool in 64 TiB of address space, so it is no more.
inline constexpr int64_t kUnlimitedBytes = int64_t{8} << 40;

// Loads the stub libraries of `folder` (lib/fathom-phantom beside the binary) into this process and sets
// FATHOM_PHANTOM_{NAME,CAPABILITY,MULTIPROCESSORS,MEMORY,PLACEMENT,SEGMENTS} for them; FATHOM_PHANTOM_LOG=1 (launches)
// or 2 (memory calls too) is the user's. Call once, before LibTorch is loaded: the dynamic loader then satisfies
// LibTorch's dependencies with what is already there. Throws Error when CUDA's own runtime is already loaded or a stub
// is missing.
void load_stubs(const std::filesystem::path& folder, const PhantomGpu& gpu);

// A program's script, in whose Python fathom's agent (agent/agent.py) writes down what it took of the pretended GPU.
struct Script {
  std::filesystem::path report;  // the folder into which each of its processes writes a file of JSON
  int64_t steps = 0;             // of its optimizer after which it is ended; 0: it ends by itself
  int64_t devices = 1;           // of that GPU, in one machine
  bool timeline = false;         // each block of the step with the peak is written down
  bool no_weights = false;       // models of transformers are read from folders without weights
};
inline constexpr int64_t kMostDevices = 64;  // the stubs have room for as many (PHANTOM_MOST_DEVICES)
// The variables with which a process starts that is to have the GPU and the agent; both are in `folder`, as for
// load_stubs. Its Python puts the stubs under itself (agent/sitecustomize.py), which PYTHONPATH leads it to, before
// what that says already; LD_PRELOAD brings what follows each process (follow). Throws Error where a file is missing,
// or the GPU cannot be pretended. CUDA_VISIBLE_DEVICES, which speaks of this machine's GPUs where it is set, names all
// that are pretended.
std::map<std::string, std::string> variables_of(const std::filesystem::path& folder, const PhantomGpu& gpu,
                                                const Script& script);

// The stubs of this process pretend another amount of memory, of which others have taken `taken_bytes`, and another
// placement from now on, as if it had been started with them. Everything must have been given back to the driver
// (ledger::CudaDevice::start_over does that). Throws Error when something has not, when no stubs are loaded, or when
// the process may not have the address space.
void pretend(int64_t memory_bytes, int64_t taken_bytes, uint64_t placement);

// Kernels, products of libraries, copies and fills that the calling thread has given to the stubs of this process so
// far, and that all threads have; 0 where none are loaded.
int64_t launches();
int64_t launches_of_all();
// Of those of all threads, what went into recordings (CUDA graphs); a replay is one launch.
int64_t recorded_of_all();

}  // namespace fathom::phantom_gpu
