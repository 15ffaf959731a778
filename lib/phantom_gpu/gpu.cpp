// Puts the stub libraries of the phantom GPU into this process, before anything asks for the real ones.
#include "phantom_gpu/gpu.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace fathom::phantom_gpu {
namespace {

// In the order of their own dependencies: the others use libcudart's.
constexpr std::array kLibraries = {"libcudart.so.13", "libcuda.so.1",      "libcublasLt.so.13",  "libcublas.so.13",
                                   "libcudnn.so.9",   "libcusparse.so.12", "libcusolver.so.12",  "libcufft.so.12",
                                   "libcurand.so.10", "libcupti.so.13",    "libnvrtc.so.13",     "libnvshmem_host.so.3",
                                   "libnccl.so.2",    "libcufile.so.0",    "libcusparseLt.so.0", "libnvidia-ml.so.1"};

// Comes into every process of a script (lib/phantom_gpu/follow).
constexpr const char* kFollows = "follow.so";

// Those that the stubs know the limits of and that LibTorch has machine code for.
constexpr std::array<std::string_view, 10> kCapabilities = {"7.5", "8.0",  "8.6",  "8.7",  "8.9",
                                                            "9.0", "10.0", "10.3", "12.0", "12.1"};

// Of a script's copies and fills, those that are made: tensors of so many numbers are followed (agent/values.py).
constexpr int64_t kKeptBytes = int64_t{1} << 20;

void check_memory(const std::string& name, int64_t memory_bytes) {
  if (memory_bytes < 1 || memory_bytes > kUnlimitedBytes) {
    throw Error("the GPU '" + name + "' has " + std::to_string(memory_bytes) + " bytes of memory; expected 1 to " +
                    std::to_string(kUnlimitedBytes),
                "correct its entry in the list of GPUs");
  }
}

void check(const PhantomGpu& gpu) {
  if (std::find(kCapabilities.begin(), kCapabilities.end(), gpu.compute_capability) == kCapabilities.end()) {
    std::string known;
    for (std::string_view capability : kCapabilities) known += (known.empty() ? "" : ", ") + std::string(capability);
    throw Error("the GPU '" + gpu.name + "' has compute capability '" + gpu.compute_capability +
                    "', which no phantom GPU can pretend",
                "known are " + known);
  }
  if (gpu.multiprocessors < 1 || gpu.multiprocessors > 1024) {
    throw Error("the GPU '" + gpu.name + "' has " + std::to_string(gpu.multiprocessors) +
                    " multiprocessors; expected 1 to 1024",
                "correct its entry in the list of GPUs");
  }
  if (!gpu.unlimited) check_memory(gpu.name, gpu.memory_bytes);
}

using Count = long();

// Null where no stubs are loaded.
Count* counter(const char* name) { return reinterpret_cast<Count*>(dlsym(RTLD_DEFAULT, name)); }

std::map<std::string, std::string> variables_of(const PhantomGpu& gpu) {
  return {{"FATHOM_PHANTOM_NAME", gpu.name},
          {"FATHOM_PHANTOM_CAPABILITY", gpu.compute_capability},
          {"FATHOM_PHANTOM_MULTIPROCESSORS", std::to_string(gpu.multiprocessors)},
          {"FATHOM_PHANTOM_MEMORY", std::to_string(gpu.unlimited ? kUnlimitedBytes : gpu.memory_bytes)},
          {"FATHOM_PHANTOM_PLACEMENT", std::to_string(gpu.placement)},
          {"FATHOM_PHANTOM_SEGMENTS", gpu.segments.string()}};
}

std::string all_devices(int64_t count) {
  std::string all = "0";
  for (int64_t device = 1; device < count; ++device) all += "," + std::to_string(device);
  return all;
}

constexpr const char* kIncomplete = "build fathom completely; lib/fathom-phantom belongs beside the binary";

}  // namespace

std::map<std::string, std::string> variables_of(const std::filesystem::path& folder, const PhantomGpu& gpu,
                                                const Script& script) {
  check(gpu);
  const auto require = [&](const char* library) {
    if (std::filesystem::exists(folder / library)) return;
    throw Error("the phantom GPU's library " + (folder / library).string() + " is not there", kIncomplete);
  };
  std::for_each(kLibraries.begin(), kLibraries.end(), require);
  require(kFollows);
  if (folder.string().find_first_of(" :") != std::string::npos) {
    throw Error(folder.string() + " has a blank or a colon in its name, with which LD_PRELOAD ends a library's",
                "move fathom to a folder without one");
  }
  std::map<std::string, std::string> variables = variables_of(gpu);
  variables["FATHOM_PHANTOM_KEPT"] = std::to_string(kKeptBytes);
  variables["FATHOM_PHANTOM_FOLDER"] = folder.string();
  variables["FATHOM_PHANTOM_REPORT"] = script.report.string();
  variables["FATHOM_PHANTOM_STEPS"] = std::to_string(script.steps);
  variables["FATHOM_PHANTOM_TIMELINE"] = script.timeline ? "1" : "0";
  variables["FATHOM_PHANTOM_NO_WEIGHTS"] = script.no_weights ? "1" : "0";
  variables["FATHOM_PHANTOM_DEVICES"] = std::to_string(script.devices);
  if (std::getenv("CUDA_VISIBLE_DEVICES") != nullptr) variables["CUDA_VISIBLE_DEVICES"] = all_devices(script.devices);
  for (const auto& [list, entry] : {std::pair{"PYTHONPATH", "agent"}, {"LD_PRELOAD", kFollows}}) {
    const char* own = std::getenv(list);
    variables[list] = (folder / entry).string() + (own != nullptr && *own != '\0' ? ":" + std::string(own) : "");
  }
  return variables;
}

void load_stubs(const std::filesystem::path& folder, const PhantomGpu& gpu) {
  check(gpu);
  for (const char* library : kLibraries) {
    if (void* loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD)) {
      dlclose(loaded);
      throw Error(std::string(library) + " is already loaded, so no phantom GPU can take its place",
                  "start the process without LD_PRELOAD of CUDA libraries");
    }
  }
  for (const auto& [name, value] : variables_of(gpu)) setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  for (const char* library : kLibraries) {
    const std::string path = (folder / library).string();
    // Global, so that the symbols are found whatever asks for them; never closed.
    if (!dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
      throw Error("the phantom GPU's library " + path + " cannot be loaded: " + dlerror(), kIncomplete);
    }
  }
}

void pretend(int64_t memory_bytes, int64_t taken_bytes, uint64_t placement) {
  check_memory("Phantom", memory_bytes);
  if (taken_bytes < 0 || taken_bytes > memory_bytes) {
    throw Error("others cannot have taken " + std::to_string(taken_bytes) + " of " + std::to_string(memory_bytes) +
                " bytes of memory");
  }
  using Pretend = bool(size_t, size_t, unsigned long long);
  const auto pretend = reinterpret_cast<Pretend*>(dlsym(RTLD_DEFAULT, "phantom_pretend"));
  if (!pretend) throw Error("no phantom GPU is loaded in this process");
  if (!pretend(static_cast<size_t>(memory_bytes), static_cast<size_t>(taken_bytes), placement)) {
    throw Error("the phantom GPU cannot start over with " + std::to_string(memory_bytes) + " bytes of memory",
                "either memory of an earlier run is still in use, or `ulimit -v` is too low");
  }
}

int64_t launches() {
  static Count* const count = counter("phantom_launches");
  return count != nullptr ? count() : 0;
}

int64_t launches_of_all() {
  static Count* const count = counter("phantom_launches_of_all");
  return count != nullptr ? count() : 0;
}

int64_t recorded_of_all() {
  static Count* const count = counter("phantom_recorded_of_all");
  return count != nullptr ? count() : 0;
}

}  // namespace fathom::phantom_gpu
