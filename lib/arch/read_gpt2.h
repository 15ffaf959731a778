// Reads the config.json of GPT-2.
#pragma once

#include "arch/architecture.h"
#include "arch/config_json.h"

namespace fathom::arch {

// All but the family, the type of the weights and the ids of tokens, after transformers 5's configuration_gpt2.py.
// Throws Error naming the key for what this decoder would compute differently, and for absurd numbers.
void read_gpt2(const ConfigJson& config, Architecture& architecture);

}  // namespace fathom::arch
