// By the libraries' lists: bitsandbytes takes fronts of names, compressed-tensors patterns, FP8 in blocks whole names.
#include "quant/left_out.h"

#include <algorithm>

#include "base/json_value.h"
#include "weights/other_parts.h"

namespace fathom::quant {
namespace {

// Parts of names: of the head, the embedding, norms, routers and what of a gated delta is no linear layer.
constexpr std::string_view kNeverCoded[] = {"lm_head", "embed_tokens", "norm",  "e_score_correction_bias",
                                            "router",  "conv1d",       "A_log", "dt_bias"};
constexpr std::string_view kGate = "gate";  // a router; a projection has a longer name

}  // namespace

bool is_never_coded(const std::string& name) {
  const auto names = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  return name == kGate || name.ends_with(std::string(".").append(kGate)) || std::ranges::any_of(kNeverCoded, names) ||
         std::ranges::any_of(weights::other_parts(), names);
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
