// What was measured on a device once, so that plans for it need no guess: speeds of a CPU, and what a GPU's driver uses
// beneath the runtime interface.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "arch/run.h"
#include "base/json.h"
#include "plan/time/expected_time.h"

namespace fathom::plan {

// Of training steps of a small model (play/measure_speed.h).
struct MeasuredSpeed {
  int64_t threads = 0;
  bool narrow = false;  // products in BF16, else in FP32
  int64_t width = 0;    // the model's hidden_size
  double matrix_flops_per_second = 0;
  double attention_flops_per_second = 0;
  double bytes_per_second = 0;  // of everything else
  bool operator==(const MeasuredSpeed&) const = default;
};

// The settings that decide which kernels a run launches, and with them which modules the driver loads.
struct KernelSettings {
  bool narrow = false;
  config::Attention attention = config::Attention::kFlash;
  config::Method method = config::Method::kFull;
  bool checkpointing = false;
  bool operator==(const KernelSettings&) const = default;
};
KernelSettings kernel_settings(const arch::Run& run);

struct MeasuredOverhead {
  KernelSettings settings;
  int64_t bytes = 0;  // the driver's used bytes less what the caching allocator had reserved
  bool operator==(const MeasuredOverhead&) const = default;
};

struct Calibration {
  std::string device;                       // as the CPU or the driver names it
  std::string measured_on;                  // "2026-11-21"
  std::vector<MeasuredSpeed> speeds;        // of a CPU
  std::vector<MeasuredOverhead> overheads;  // of a GPU
  bool operator==(const Calibration&) const = default;
};

Json to_json(const Calibration& calibration);
// origin: what errors call the value. Throws Error for another form and for absurd numbers.
Calibration calibration_from_json(const Json& value, const std::string& origin);

// The file of a device in a folder of records: letters, digits and dashes.
std::filesystem::path calibration_file(const std::filesystem::path& folder, const std::string& device);
// nullopt if there is none; throws Error if it is damaged, too large or of another device.
std::optional<Calibration> load_calibration(const std::filesystem::path& folder, const std::string& device);
// Written whole or not at all; returns the file.
std::filesystem::path save_calibration(const std::filesystem::path& folder, const Calibration& calibration);

// The speeds for a run's precision, width and threads. Between measured widths and threads the rates are interpolated
// along their logarithms, beyond the measured widths the nearest counts; nullopt for more threads than were measured or
// none of that precision, and for FP16.
std::optional<Throughput> throughput_of(const Calibration& calibration, const arch::Run& run, int64_t threads);
// What the driver uses besides the allocator's reserved bytes for a run of these settings; nullopt if not measured.
std::optional<int64_t> overhead_of(const Calibration& calibration, const KernelSettings& settings);

}  // namespace fathom::plan
