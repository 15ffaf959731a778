// Reads what the config.json of Qwen3.5's text models says of their layers.
#pragma once

#include "arch/architecture.h"
#include "arch/config_json.h"

namespace fathom::arch {

// Gives the layers that attend their gates, and puts the gated delta rule in the place of the others, after
// transformers 5's configuration_qwen3_5.py. Throws Error naming the key for layers of another kind, for sizes that do
// not fit each other, and where no layer attends.
void read_deltas(const ConfigJson& config, Architecture& architecture);

}  // namespace fathom::arch
