// Finds and reads records of calibration.
#include "app/run/calibrations.h"

#include <cstdlib>
#include <map>
#include <mutex>

#include "app/installation.h"
#include "app/machine.h"
#include "app/run/session.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "base/log.h"
#include "plan/time/operator_times.h"

namespace fathom::app {
namespace {

std::filesystem::path variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::optional<plan::Calibration> read_calibration(const std::string& device) {
  try {
    return plan::load_calibration(calibration_folder(), device);
  } catch (const Error& error) {
    log_warning(std::string(error.what()) + "; plans go on without calibration");
    return std::nullopt;
  }
}

std::filesystem::path measured_times_file(const std::string& device) {
  return plan::calibration_file(calibration_folder() / "gpu-times", device);
}

// Empty where there is none; where there can be no folder for it, calibration_of tells.
std::filesystem::path kept_times_file(const std::string& device) try {
  std::filesystem::path file = measured_times_file(device);
  std::error_code unreadable;
  return std::filesystem::exists(file, unreadable) ? file : std::filesystem::path();
} catch (const Error&) {
  return {};
}

std::string read_operator_times(const std::string& device) {
  constexpr int64_t kLargest = int64_t{4} << 20;
  for (const std::filesystem::path& file : {kept_times_file(device), operator_times_file(device)}) {
    if (file.empty()) continue;
    try {
      std::string text = read_file(file, kLargest);
      const auto times = plan::OperatorTimes::from_json(parse_json(text, file.string()), file.string());
      if (times.device() == device) return text;
      throw Error(file.string() + " is of another device, " + times.device());
    } catch (const Error& error) {
      log_warning(std::string(error.what()) + "; plans go on without this table");
    }
  }
  return {};
}

// What `read` found for a device, the first time that it was asked.
template <auto read>
auto remembered(const std::string& device) {
  static std::mutex mutex;
  static std::map<std::string, decltype(read(device))> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(device);
  return found != known.end() ? found->second : known.emplace(device, read(device)).first->second;
}

}  // namespace

std::filesystem::path calibration_folder() {
  if (auto folder = variable("FATHOM_CALIBRATION"); !folder.empty()) return folder;
  const std::filesystem::path below = std::filesystem::path("fathom") / "calibration";
  if (auto folder = variable("XDG_CONFIG_HOME"); !folder.empty()) return folder / below;
  if (const auto home = variable("HOME"); !home.empty()) return home / ".config" / below;
  throw Error("there is no folder for records of calibration: HOME is not set", "set FATHOM_CALIBRATION to a folder");
}

std::optional<plan::Calibration> calibration_of(const std::string& device) {
  return remembered<read_calibration>(device);
}

std::string cpu_name() {
  static const std::string model = this_cpu().model;
  return model.empty() ? "CPU" : model;
}

std::optional<plan::Throughput> cpu_throughput(const arch::Run& run, int64_t threads) {
  const auto calibration = calibration_of(cpu_name());
  return calibration ? plan::throughput_of(*calibration, run, threads) : std::nullopt;
}

std::string operator_times_of(const std::string& device) { return remembered<read_operator_times>(device); }

std::filesystem::path save_operator_times(const std::string& device, const Json& table) {
  std::filesystem::path file = measured_times_file(device);
  std::filesystem::create_directories(file.parent_path());
  write_file_atomically(file, format_json(table));
  return file;
}

config::GpuSpec listed_spec_of(const ledger::CudaDevice& device) {
  config::GpuSpec gpu = spec_of(device);
  for (const auto& [name, listed] : config::load_gpus(gpus_file())) {
    if (listed.product != gpu.product) continue;
    config::GpuSpec merged = listed;
    merged.name = gpu.name;
    merged.multiprocessors = gpu.multiprocessors;
    merged.memory_bytes = gpu.memory_bytes;
    return merged;
  }
  return gpu;
}

}  // namespace fathom::app
