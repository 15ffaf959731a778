// By the two libraries' lists: bitsandbytes takes fronts of names, compressed-tensors patterns.
#include "quant/left_out.h"

#include <algorithm>

#include "base/json_value.h"
#include "weights/other_parts.h"

namespace fathom::quant {

bool is_never_coded(const std::string& name) {
  const auto names = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  return names("lm_head") || names("embed_tokens") || std::ranges::any_of(weights::other_parts(), names);
}

Json beside_other_parts(Json quantization_config) {
  const bool patterns = quantization_config.contains("ignore");
  Json left_out = Json::array({"lm_head"});
  for (const std::string_view part : weights::other_parts()) {
    left_out.push_back(std::string(patterns ? "re:" : "").append("model.").append(part));
  }
  quantization_config[patterns ? "ignore" : "llm_int8_skip_modules"] = std::move(left_out);
  return quantization_config;
}

}  // namespace fathom::quant
