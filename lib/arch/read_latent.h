// The keys of LatentHeads in the config.json of DeepSeek-V3 and of those that took them over.
#pragma once

#include "arch/config_json.h"
#include "arch/families.h"
#include "base/json.h"

namespace fathom::arch {

// What Llama's keys would say: heads as wide as their two parts, and as many of keys as of queries. json: that of
// config. Throws Error naming the key for a part that cannot be turned in pairs of neighbours.
Json latent_in_llamas_words(const ConfigJson& config, const Json& json, const Family& family);

// Of those words. Throws Error naming the key for values that are wider than heads.
LatentHeads read_latent(const ConfigJson& words, const Family& family);

}  // namespace fathom::arch
