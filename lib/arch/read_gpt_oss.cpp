// After transformers 5's configuration_gpt_oss.py.
#include "arch/read_gpt_oss.h"

#include <string>

#include "base/json_value.h"

namespace fathom::arch {

Json gpt_oss_in_llamas_words(const ConfigJson& config, const Json& json) {
  constexpr const char *kPerToken = "num_experts_per_tok", *kStretch = "rope_parameters";
  Json words = json;
  const std::string per_token = config.either(kPerToken, "experts_per_token");
  if (const Json* said = config.find(per_token)) words[kPerToken] = *said;
  if (config.asked(kStretch) == nullptr && config.asked("rope_scaling") == nullptr) {
    words[kStretch] = {{"rope_type", "yarn"}, {"factor", 32.0},    {"beta_fast", 32.0},
                       {"beta_slow", 1.0},    {"truncate", false}, {"original_max_position_embeddings", 4096}};
  }
  return words;
}

}  // namespace fathom::arch
