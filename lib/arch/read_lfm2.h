// Reads what the config.json of LFM2 says in words of its own.
#pragma once

#include "arch/architecture.h"
#include "arch/config_json.h"

namespace fathom::arch {

// The same keys as Llama calls them, after transformers 5's configuration_lfm2.py: without layer_types, and with the
// width that feed-forward parts have. json: what config reads. Throws Error naming the key for absurd numbers.
Json lfm2_in_llamas_words(const ConfigJson& config, const Json& json);

// Puts convolutions in the place of attention where config says so. Throws Error naming the key for layers of another
// kind, for biases, and where no layer attends.
void read_convolutions(const ConfigJson& config, Architecture& architecture);

}  // namespace fathom::arch
