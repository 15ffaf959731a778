// The machine through /proc, /sys/fs/cgroup and the driver's own library.
#include "app/machine.h"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <iterator>
#include <set>
#include <sstream>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "base/numbers.h"
#include "base/system_error.h"

namespace fathom::app {
namespace {

constexpr std::array kInstructions{"avx2",        "fma",         "avx512f",        "avx512_vnni",
                                   "avx512_bf16", "avx512_fp16", "avx_ne_convert", "amx_tile",
                                   "amx_bf16",    "amx_int8",    "amx_fp16"};

// The text of a small system file; empty where there is none.
std::string system_file(const std::string& path) {
  try {
    return read_file(path, size_t{16} << 20);
  } catch (const Error&) {
    return "";
  }
}

// The rest of the first line that starts with `key`, after its colon and spaces.
std::string field(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (line.compare(0, key.size(), key) != 0 || colon == std::string::npos) continue;
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

std::optional<int64_t> number(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end != text.data() ? std::optional(value) : std::nullopt;
}

int64_t kibibytes(const std::string& file, const std::string& key) {
  return number(field(system_file(file), key)).value_or(0) * 1024;
}

// A group's folder under `root`, and those above it, each with the two files that say its limit and use.
struct Group {
  std::string root, path, limit, usage;
};

std::vector<Group> memory_groups() {
  std::vector<Group> groups;
  std::istringstream lines(system_file("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) groups.push_back({"/sys/fs/cgroup", path, "memory.max", "memory.current"});
    if (controllers == "memory") {
      groups.push_back({"/sys/fs/cgroup/memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes"});
    }
  }
  return groups;
}

// Calls visit(limit, usage) for the process's group and all above it that have a limit.
template <typename Visit>
void visit_limits(const Visit& visit) {
  constexpr int64_t kUnlimited = int64_t{1} << 60;  // cgroup v1 says "none" by a huge number
  for (const Group& group : memory_groups()) {
    for (std::filesystem::path path = group.path;; path = path.parent_path()) {
      const std::string folder = group.root + (path == "/" ? "" : path.string());
      const auto limit = number(system_file(folder + "/" + group.limit));
      if (limit && *limit < kUnlimited) visit(*limit, number(system_file(folder + "/" + group.usage)).value_or(0));
      if (!path.has_relative_path()) break;
    }
  }
}

// Under WSL the driver says that it maps memory, but refuses the way in which LibTorch asks for it.
bool is_windows_subsystem() { return system_file("/proc/sys/kernel/osrelease").find("microsoft") != std::string::npos; }

// The driver's interface, as far as it is needed here (cuda.h).
class Driver {
 public:
  Driver() : library_(::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) {
    usable_ = library_ != nullptr && call("cuInit", 0U) && call("cuDeviceGetCount", &count_);
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  ~Driver() {
    if (library_ != nullptr) ::dlclose(library_);
  }
  int count() const { return usable_ ? count_ : 0; }
  Gpu gpu(int index) const {
    // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*, _VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED and
    // _HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: LibTorch asks for memory with such handles.
    constexpr int kMajor = 75, kMinor = 76, kMapsMemory = 102, kHasHandles = 103;
    int device = 0, major = 0, minor = 0, maps_memory = 0, has_handles = 0;
    size_t bytes = 0;
    std::array<char, 256> name{};
    call("cuDeviceGet", &device, index);
    call("cuDeviceGetName", name.data(), static_cast<int>(name.size()) - 1, device);
    call("cuDeviceTotalMem_v2", &bytes, device);
    call("cuDeviceGetAttribute", &major, kMajor, device);
    call("cuDeviceGetAttribute", &minor, kMinor, device);
    call("cuDeviceGetAttribute", &maps_memory, kMapsMemory, device);
    call("cuDeviceGetAttribute", &has_handles, kHasHandles, device);
    return {.name = name.data(),
            .compute_capability = std::to_string(major) + "." + std::to_string(minor),
            .memory_bytes = static_cast<int64_t>(bytes),
            .maps_memory = maps_memory != 0 && has_handles != 0 && !is_windows_subsystem()};
  }

 private:
  template <typename... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library_, name));
    return function != nullptr && function(arguments...) == 0;
  }

  void* library_;
  bool usable_ = false;
  int count_ = 0;
};

// "2026-11-23 20:01 UTC".
std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 40> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &utc)};
}

}  // namespace

Cpu this_cpu() {
  const std::string text = system_file("/proc/cpuinfo");
  Cpu cpu;
  cpu.model = field(text, "model name");
  cpu_set_t set;
  CPU_ZERO(&set);
  cpu.cores = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : ::sysconf(_SC_NPROCESSORS_ONLN);
  std::istringstream words(field(text, "flags"));
  const std::set<std::string> flags(std::istream_iterator<std::string>(words), {});
  for (const char* instruction : kInstructions) {
    if (flags.count(instruction) > 0) cpu.instructions.emplace_back(instruction);
  }
  return cpu;
}

int64_t total_memory_bytes() { return kibibytes("/proc/meminfo", "MemTotal"); }

int64_t available_memory_bytes() {
  int64_t available = kibibytes("/proc/meminfo", "MemAvailable");
  visit_limits(
      [&](int64_t limit, int64_t usage) { available = std::min(available, std::max<int64_t>(0, limit - usage)); });
  const auto space = address_space_bytes();
  if (space) available = std::min(available, std::max<int64_t>(0, *space - kAddressSpaceBesideTensors));
  return available;
}

std::optional<int64_t> memory_limit_bytes() {
  std::optional<int64_t> lowest;
  visit_limits([&](int64_t limit, int64_t) { lowest = std::min(lowest.value_or(limit), limit); });
  return lowest;
}

int64_t resident_bytes() { return kibibytes("/proc/self/status", "VmRSS"); }
int64_t peak_resident_bytes() { return kibibytes("/proc/self/status", "VmHWM"); }

std::vector<Gpu> this_gpus() {
  const Driver driver;
  std::vector<Gpu> gpus;
  gpus.reserve(static_cast<size_t>(driver.count()));
  for (int index = 0; index < driver.count(); ++index) gpus.push_back(driver.gpu(index));
  return gpus;
}

Json facts_of_now() {
  const Cpu cpu = this_cpu();
  const std::string machine =
      cpu.model + ", " + format_counted(cpu.cores, "core") + ", " + format_bytes(total_memory_bytes());
  return {{"date", now()}, {"machine", machine}};
}

}  // namespace fathom::app
