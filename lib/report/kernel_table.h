// The list of a step's kernels, as tables for the terminal and as JSON.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "config/devices.h"
#include "plan/time/kernels.h"

namespace fathom::report {

// By parts of the model in each phase, then by operators, what takes longest first. gpu: whose data sheet says how long
// each takes at least; unset: by bytes. tf32: whether FP32 products take it.
std::string format_kernels(const plan::KernelList& list, const std::optional<config::GpuSpec>& gpu, bool tf32);
// Every row. Key "least_seconds": null where a speed is not known.
Json kernels_json(const plan::KernelList& list, const std::optional<config::GpuSpec>& gpu, bool tf32);

}  // namespace fathom::report
