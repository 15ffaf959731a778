// The config.json of gpt-oss, whose keys are Llama's but for a few.
#pragma once

#include "arch/config_json.h"
#include "base/json.h"

namespace fathom::arch {

// What OpenAI's first folders call otherwise, and the stretch of positions that transformers' class has where the file
// says nothing of it. json: that of config.
Json gpt_oss_in_llamas_words(const ConfigJson& config, const Json& json);

}  // namespace fathom::arch
