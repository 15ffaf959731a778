// The records of `fathom doctor --calibrate` on this machine, for plans.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/json.h"
#include "config/devices.h"
#include "ledger/cuda.h"
#include "plan/plan.h"
#include "plan/time/calibration.h"

namespace fathom::app {

// $FATHOM_CALIBRATION, else fathom/calibration in $XDG_CONFIG_HOME or ~/.config. Throws Error where none is set.
std::filesystem::path calibration_folder();

// The record of a device, as the first question of this process about it found it; nullopt if there is none. A damaged
// one counts as none, with one warning that says so.
std::optional<plan::Calibration> calibration_of(const std::string& device);
// The name under which this machine's CPU is recorded.
std::string cpu_name();

// What this CPU does in a second in a run with so many threads; nullopt: not calibrated.
std::optional<plan::Throughput> cpu_throughput(const arch::Run& run, int64_t threads);
// The table of what operators take on a GPU, as the driver names it, as JSON (plan/time/operator_times.h): the one that
// was measured on this machine, else the one that comes with the program; empty: there is none. A damaged one counts as
// none, with one warning.
std::string operator_times_of(const std::string& device);
// Keeps a measured one; returns its file.
std::filesystem::path save_operator_times(const std::string& device, const Json& table);

// A GPU of this machine to plan for: its own sizes, with speed and price as configs/gpus.yaml lists them for its
// product.
config::GpuSpec listed_spec_of(const ledger::CudaDevice& device);

}  // namespace fathom::app
