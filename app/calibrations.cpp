// Finds and reads records of calibration.
#include "app/calibrations.h"

#include <cstdlib>
#include <map>
#include <mutex>

#include "app/installation.h"
#include "app/machine.h"
#include "app/session.h"
#include "base/error.h"
#include "base/log.h"

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

}  // namespace

std::filesystem::path calibration_folder() {
  if (const auto folder = variable("FATHOM_CALIBRATION"); !folder.empty()) return folder;
  const std::filesystem::path below = std::filesystem::path("fathom") / "calibration";
  if (const auto folder = variable("XDG_CONFIG_HOME"); !folder.empty()) return folder / below;
  if (const auto home = variable("HOME"); !home.empty()) return home / ".config" / below;
  throw Error("there is no folder for records of calibration: HOME is not set", "set FATHOM_CALIBRATION to a folder");
}

std::optional<plan::Calibration> calibration_of(const std::string& device) {
  static std::mutex mutex;
  static std::map<std::string, std::optional<plan::Calibration>> known;
  const std::lock_guard lock(mutex);
  const auto record = known.find(device);
  return record != known.end() ? record->second : known.emplace(device, read_calibration(device)).first->second;
}

std::string cpu_name() {
  static const std::string model = this_cpu().model;
  return model.empty() ? "CPU" : model;
}

std::optional<plan::Throughput> cpu_throughput(const config::RunConfig& run, const arch::Architecture& architecture,
                                               int64_t threads) {
  const auto calibration = calibration_of(cpu_name());
  return calibration ? plan::throughput_of(*calibration, run, architecture, threads) : std::nullopt;
}

config::GpuSpec listed_spec_of(const ledger::CudaDevice& device) {
  const config::GpuSpec gpu = spec_of(device);
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
