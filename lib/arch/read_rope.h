// Reads the rotary positions of a config.json.
#pragma once

#include "arch/config_json.h"
#include "arch/families.h"

namespace fathom::arch {

// Of layers that see everything before them, and of those with a window: the same, but in a few families.
struct RotaryOfLayers {
  Rotary full, windowed;
};
struct HeadDims {
  int64_t full = 0, windowed = 0;
};

// Both spellings: rope_parameters {rope_theta, rope_type} of transformers 5, by type of layers in families that have
// two kinds, and rope_theta (rope_local_base_freq) beside rope_scaling of transformers 4. Throws Error naming the key.
RotaryOfLayers read_rope(const ConfigJson& config, const Family& family, const HeadDims& heads, int64_t max_positions);

// For each layer whether it turns queries and keys, as no_rope_layers says or the family's pattern.
std::vector<bool> read_turned_layers(const ConfigJson& config, const Family& family, size_t layers);

}  // namespace fathom::arch
