// Reads what the config.json of Granite 4 says in words of its own.
#pragma once

#include "arch/config_json.h"

namespace fathom::arch {

// The same keys as Llama calls them, after transformers 5's configuration_granitemoehybrid.py. json: what config reads.
// Throws Error naming the key for state space layers, experts, and layers that are not turned by their positions.
Json granite_hybrid_in_llamas_words(const ConfigJson& config, const Json& json);

}  // namespace fathom::arch
