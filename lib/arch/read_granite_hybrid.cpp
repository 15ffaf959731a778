// Of its models those without state space layers and experts: Granite's layers with a feed-forward part of other names.
#include "arch/read_granite_hybrid.h"

#include "base/json_value.h"

namespace fathom::arch {
namespace {

constexpr const char* kOthers = "take a Granite 4 of attention alone (granite-4.0-micro, 1b or 350m without \"h\")";

// Older folders have other words for the types.
void check_layers(const ConfigJson& config) {
  const std::string key = config.either(kLayerTypes, "layers_block_type");
  const Json* types = config.find(key);
  if (types == nullptr || !types->is_array()) {
    config.refuse(key, "expected a list: where it is silent, every layer is a state space layer", kOthers);
  }
  for (const Json& type : *types) {
    if (type == "attention" || type == "full_attention") continue;
    config.refuse(key, type.dump().substr(0, 80) + " is not supported (only attention is)", kOthers);
  }
}

}  // namespace

Json granite_hybrid_in_llamas_words(const ConfigJson& config, const Json& json) {
  check_layers(config);
  constexpr const char *kExperts = "num_local_experts", *kPositions = "position_embedding_type";
  if (config.find(kExperts) == nullptr || config.asked(kExperts) != nullptr) {
    config.refuse(kExperts, "only 0 is supported, and where it is silent there are 8", kOthers);
  }
  if (const Json* type = config.find(kPositions); type == nullptr || *type != "rope") {
    config.refuse(kPositions, "only \"rope\" is supported, and where it is silent there are no positions", kOthers);
  }
  Json words = json;
  words["intermediate_size"] = config.size("shared_intermediate_size", 1024);
  for (const char* key : {kLayerTypes, "layers_block_type"}) words.erase(key);
  return words;
}

}  // namespace fathom::arch
