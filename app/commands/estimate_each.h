// `fathom estimate --each FILE`: many plans of one model and its data, each with settings of its own.
#pragma once

#include <optional>

#include "app/commands/estimate.h"
#include "schedule/inputs.h"

namespace fathom::app {

// One JSON object for each line of the file, in its order.
int estimate_each(const Estimate& invocation, const schedule::RunInputs& inputs,
                  const std::optional<config::GpuSpec>& gpu);

}  // namespace fathom::app
