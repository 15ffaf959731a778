// A run's inputs, held against the adapter that training continues from.
#pragma once

#include "schedule/inputs.h"

namespace fathom::train {

// read_inputs, and an adapter to train on must be there and fit, unless the run is resumed.
schedule::RunInputs open_inputs(const config::RunConfig& config, bool weights_required = true);
// Throws Error or UsageError unless the adapter of adapter_name_or_path can be trained on: settings, and names, shapes
// and types of its weights, where they are there or required.
void refuse_other_adapter(const config::RunConfig& config, const schedule::RunInputs& inputs,
                          bool weights_required = true);

}  // namespace fathom::train
