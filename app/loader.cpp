// Libraries by dlopen, in the order in which they satisfy each other.
#include "app/loader.h"

#include <dlfcn.h>
#include <sched.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <thread>
#include <vector>

#include "app/allocator_settings.h"
#include "app/installation.h"
#include "app/machine.h"
#include "app/torch_variables.h"
#include "base/error.h"
#include "base/file.h"
#include "base/system_error.h"

namespace fathom::app {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kVersion = "2.11.";
std::string torch_remedy() {
  const std::string pip = "pip install torch==2.11.0, for the python3 that comes first on PATH";
  return "install it (" + (is_installed() ? pip : "scripts/setup, or " + pip) +
         ") or set FATHOM_TORCH to the folder that holds its lib/ and include/";
}

// The text between the first quotes after `name =`.
std::string quoted_after(const std::string& text, const std::string& name) {
  const size_t start = text.find(name + " = '");
  if (start == std::string::npos) return "";
  const size_t from = start + name.size() + 4;
  return text.substr(from, text.find('\'', from) - from);
}

std::string number_after(const std::string& text, const std::string& name) {
  const size_t start = text.find(name + " ");
  if (start == std::string::npos) return "";
  const size_t from = start + name.size() + 1;
  return text.substr(from, text.find_first_not_of("0123456789", from) - from);
}

// The wheel says its version in Python, an unpacked LibTorch in a header.
std::string version_of(const fs::path& folder) {
  try {
    if (fs::exists(folder / "version.py")) return quoted_after(read_file(folder / "version.py"), "__version__");
    const std::string header = read_file(folder / "include" / "torch" / "headeronly" / "version.h");
    return number_after(header, "TORCH_VERSION_MAJOR") + "." + number_after(header, "TORCH_VERSION_MINOR") + "." +
           number_after(header, "TORCH_VERSION_PATCH");
  } catch (const Error&) {
    return "";
  }
}

// Why the folder will not do; empty if it will.
std::string objection(const fs::path& folder) {
  if (!fs::exists(folder / "lib" / "libtorch_cpu.so")) return "has no lib/libtorch_cpu.so";
  const std::string version = version_of(folder);
  if (version.compare(0, kVersion.size(), kVersion) != 0) {
    return "is version " + (version.empty() ? "unknown" : version) + ", not " + std::string(kVersion) + "x";
  }
  return "";
}

// The torch that pip has put below the prefix which an installed program is in; empty: there is none.
fs::path torch_beside() {
  const fs::path prefix = program_folder().parent_path();
  std::error_code ignored;
  for (const char* libraries : {"lib", "lib64"}) {
    for (const auto& python : fs::directory_iterator(prefix / libraries, ignored)) {
      if (!python.path().filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"}) {
        fs::path torch = python.path() / packages / "torch";
        if (fs::exists(torch)) return torch;
      }
    }
  }
  return {};
}

// Where python3 would import torch from, without importing it; empty if it would not. From /: the working directory,
// where Python looks first, may hold anybody's torch, and its library would be run.
fs::path python_torch() {
  constexpr const char* kCommand =
      "cd / && python3 -c 'import importlib.util as u; s = u.find_spec(\"torch\"); print(s.origin if s else \"\")' "
      "2>/dev/null";
  FILE* pipe = ::popen(kCommand, "re");
  if (pipe == nullptr) return {};
  std::string output;
  std::array<char, 4096> buffer{};
  while (const size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), got);
  if (::pclose(pipe) != 0) return {};
  return fs::path(output.substr(0, output.find('\n'))).parent_path();
}

// binding: RTLD_LAZY for LibTorch, which saves a tenth of its loading time; RTLD_NOW for our own, to tell a wrong build
// at once.
void* load(const fs::path& library, int binding, const std::string& remedy) {
  void* handle = ::dlopen(library.c_str(), binding | RTLD_GLOBAL);
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    const std::string space = describe_address_space();
    throw Error("cannot load " + library.string() + ": " + (reason != nullptr ? reason : "unknown reason"),
                space.empty() ? remedy : space);
  }
  return handle;
}

void load_stubs(const Invocation& invocation) {
  phantom_gpu::PhantomGpu gpu = pretended(*invocation.phantom_gpu);
  gpu.placement = invocation.placement;
  gpu.segments = invocation.segments;
  phantom_gpu::load_stubs(library_folder() / "fathom-phantom", gpu);
}

// Tasks that the machine runs at this moment besides this one; 0 where it does not say.
int64_t running_elsewhere() try {
  std::istringstream load(read_file("/proc/loadavg"));
  std::string average;
  int64_t running = 1;
  load >> average >> average >> average >> running;
  return running - 1;
} catch (const Error&) {
  return 0;
}

// Whether only other real-time tasks can take a processor from this one.
bool is_real_time() {
  const int policy = ::sched_getscheduler(0);
  return policy == SCHED_FIFO || policy == SCHED_RR;
}

// libgomp's threads wait for each other by spinning, some 300,000 rounds before they sleep. Where another process has
// the core that a thread is waited for on, that is milliseconds at every operator. 10,000 rounds are as fast on an idle
// machine; on a busy one 1,000 are faster still (benchmarks/busy-machine.md). libgomp reads this as LibTorch is opened.
void choose_waiting() {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  const bool busy =
      !is_real_time() && 2 * running_elsewhere() >= static_cast<int64_t>(std::thread::hardware_concurrency());
  ::setenv("GOMP_SPINCOUNT", busy ? "1000" : "10000", /*overwrite=*/0);
}

// LibTorch and oneDNN keep each product's kernel, about 1 MiB of generated code and tables in 16 bits, for the next of
// the same shape, up to 1,024 of them each. Batches of many lengths fill that with memory that nobody needs again (900
// MiB after 100 steps of a small model); a step of one length has some forty, and making one takes 0.3 ms. Both read
// this as LibTorch is opened.
void bound_kept_kernels() {
  for (const char* variable : {"LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"}) {
    ::setenv(variable, "64", /*overwrite=*/0);
  }
}

// Every phantom GPU maps memory. Where this machine has no GPU at all LibTorch will say so.
bool maps_memory(const Invocation& invocation) {
  if (invocation.device != config::Device::kCuda || invocation.phantom_gpu) return true;
  const std::vector<Gpu> gpus = this_gpus();
  return gpus.empty() || gpus.front().maps_memory;
}

}  // namespace

TorchFolder find_torch() {
  const char* asked = std::getenv("FATHOM_TORCH");
  if (asked != nullptr && *asked != '\0') {
    const std::string reason = objection(asked);
    if (!reason.empty()) throw Error("FATHOM_TORCH is " + std::string(asked) + ", which " + reason, torch_remedy());
    return {asked, version_of(asked)};
  }
  std::string tried;
  const auto sound = [&](const fs::path& folder, const std::string& what) {
    if (folder.empty()) return false;
    const std::string reason = objection(folder);
    if (!reason.empty()) tried += (tried.empty() ? "" : ", ") + folder.string() + " (" + what + ") " + reason;
    return reason.empty();
  };
  const fs::path own = is_installed() ? torch_beside() : fs::path(FATHOM_TORCH_DIR);
  if (sound(own, is_installed() ? "beside fathom" : "built with")) return {own, version_of(own)};
  const fs::path python = python_torch();
  if (sound(python, "python3's torch")) return {python, version_of(python)};
  if (python.empty()) tried += std::string(tried.empty() ? "" : ", ") + "python3 has no torch";
  throw Error("LibTorch 2.11 is not on this machine: " + tried, torch_remedy());
}

phantom_gpu::PhantomGpu pretended(const config::GpuSpec& spec) {
  phantom_gpu::PhantomGpu gpu;
  gpu.name = spec.name;
  gpu.compute_capability = spec.compute_capability;
  gpu.multiprocessors = spec.multiprocessors;
  gpu.memory_bytes = spec.memory_bytes;
  return gpu;
}

// With less than it needs LibTorch fails in as many ways as it has libraries, by a fault of the processor too.
void check_address_space() {
  const auto space = address_space_bytes();
  if (space && *space < kAddressSpaceBesideTensors) {
    throw Error("LibTorch is not loaded: it would find no room", describe_address_space());
  }
}

EngineMain* load_engine(const Invocation& invocation) {
  check_address_space();
  const TorchFolder torch = find_torch();
  const bool cuda = invocation.device == config::Device::kCuda;
  choose_waiting();
  bound_kept_kernels();
  if (cuda || invocation.gpu) {
    refuse_torch_variables(invocation.config.num_processes > 1);
    check_allocator_settings();
    choose_allocator_settings(maps_memory(invocation));
  }
  if (invocation.phantom_gpu) load_stubs(invocation);
  load(torch.path / "lib" / "libtorch_cpu.so", RTLD_LAZY, torch_remedy());
  if (cuda) {
    constexpr const char* kCudaRemedy =
        "LibTorch must be the build with CUDA 13, with the packages of NVIDIA that it asks for; device: cpu needs "
        "neither";
    load(torch.path / "lib" / "libtorch_cuda.so", RTLD_LAZY, kCudaRemedy);
  }
  constexpr const char* kOurs = "lib/ must lie beside the program, as it was built";
  void* engine = load(library_folder() / "libfathom_engine.so", RTLD_NOW, kOurs);
  if (cuda) {
    load(library_folder() / "libfathom_cuda.so", RTLD_NOW, kOurs);  // it finds the ledger in the engine
    if (fs::exists(cuda_kernels_file())) load(cuda_kernels_file(), RTLD_NOW, kOurs);
    if (invocation.config.num_processes > 1) load(library_folder() / "libfathom_nccl.so", RTLD_NOW, kOurs);
  }
  const auto engine_main = reinterpret_cast<EngineMain*>(::dlsym(engine, kEngineMain));
  if (engine_main == nullptr) throw Error("libfathom_engine.so is of another version than the program", kOurs);
  return engine_main;
}

int run_in_engine(const Invocation& invocation) { return load_engine(invocation)(invocation); }

}  // namespace fathom::app
