// Reads what the config.json of Gemma 4 says in words of its own.
#pragma once

#include "arch/architecture.h"
#include "arch/config_json.h"

namespace fathom::arch {

// The same keys as Gemma 3 calls them, after transformers 5's configuration_gemma4.py: with the type of each layer, the
// last of which sees everything before it, and with global_head_dim and num_global_key_value_heads in the place of
// per_layer_config. json: what config reads. Throws Error naming the key for per-layer embeddings, layers that share
// keys and values, experts, and text that sees both ways.
Json gemma4_in_gemma3s_words(const ConfigJson& config, const Json& json);

// Sets what the layers that see everything before them have apart, and what all of them have besides.
void read_full_layers(const ConfigJson& words, std::vector<LayerSpec>& layers);

}  // namespace fathom::arch
