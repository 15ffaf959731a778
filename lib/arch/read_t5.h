// Reads the config.json of T5 and FLAN-T5.
#pragma once

#include "arch/architecture.h"
#include "arch/config_json.h"

namespace fathom::arch {

// All but the family, the type of the weights and the ids of tokens that end or fill a text, after transformers 5's
// configuration_t5.py. Throws Error naming the key for what is not T5's, and for absurd numbers.
void read_t5(const ConfigJson& config, Architecture& architecture);

}  // namespace fathom::arch
