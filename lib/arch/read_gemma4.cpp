// Sizes of heads by kind of layer, in either spelling: keys of their own, or per_layer_config.
#include "arch/read_gemma4.h"

#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "arch/families.h"
#include "base/json_value.h"

namespace fathom::arch {
namespace {

constexpr const char *kFull = "full_attention", *kSliding = "sliding_attention";
constexpr const char *kPerLayer = "per_layer_config", *kBothWays = "use_bidirectional_attention";
constexpr const char *kFullHeadDim = "global_head_dim", *kFullKeyHeads = "num_global_key_value_heads";
constexpr int64_t kUsualHeadDim = 256;
constexpr const char *kKeysAreValues = "attention_k_eq_v", *kSoftcap = "final_logit_softcapping";

void refuse_other_layers_of_gemma4(const ConfigJson& config) {
  const auto refuse = [&](const char* key, const std::string& what) {
    config.refuse(key, what, "take gemma-4-31B or gemma-4-12B; " + std::string(kOthersArePlanned));
  };
  // Where the key is absent there are some.
  if (!config.is_null("hidden_size_per_layer_input") && config.integer("hidden_size_per_layer_input").value_or(256)) {
    refuse("hidden_size_per_layer_input", "embeddings for each layer are not supported (only 0 is)");
  }
  if (config.integer("num_kv_shared_layers").value_or(0) != 0) {
    refuse("num_kv_shared_layers", "layers that share keys and values are not supported (only 0 is)");
  }
  if (config.flag("enable_moe_block")) refuse("enable_moe_block", "experts beside an MLP are not supported");
  if (const Json* both_ways = config.asked(kBothWays); both_ways != nullptr && *both_ways != "vision") {
    config.refuse(kBothWays, "only null and \"vision\" are supported, by which text sees what is before it");
  }
}

Json types_of_layers(const ConfigJson& config) {
  constexpr int64_t kFullEvery = 6;
  const int64_t layers = config.layers("num_hidden_layers", 30);
  Json types = Json::array();
  if (const auto sliding = config.layers_of_type(kSliding, static_cast<size_t>(layers))) {
    for (const bool slides : *sliding) types.push_back(slides ? kSliding : kFull);
  } else {
    for (int64_t layer = 1; layer <= layers; ++layer) types.push_back(layer % kFullEvery == 0 ? kFull : kSliding);
  }
  types.back() = kFull;
  return types;
}

// What each layer has of its own, by its number: "5", or "05" among more than ten.
std::map<int64_t, Json> read_layers_apart(const ConfigJson& config, const Json& per_layer, int64_t layers) {
  std::map<int64_t, Json> apart;
  for (const auto& [key, value] : per_layer.items()) {
    int64_t layer = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), layer);
    const bool is_number = error == std::errc() && end == key.data() + key.size();
    if (!is_number || layer < 0 || layer >= layers || !value.is_object() || !apart.emplace(layer, value).second) {
      config.refuse(kPerLayer, "expected keys and values of layers from 0 to " + std::to_string(layers - 1));
    }
  }
  return apart;
}

// Where each of the layers that see everything before them, and no other, has the same sizes. What is not among them is
// as in the other layers, whatever the keys of layers that see everything say.
void read_per_layer(const ConfigJson& config, Json& words) {
  const Json* per_layer = config.find(kPerLayer);
  if (per_layer == nullptr) return;
  const std::string expected = "expected the same head_dim and num_key_value_heads of every full_attention layer alone";
  if (!per_layer->is_object()) config.refuse(kPerLayer, expected);
  const Json& types = words[kLayerTypes];
  const auto apart = read_layers_apart(config, *per_layer, std::ssize(types));
  std::optional<Json> sizes;
  for (int64_t layer = 0; layer < std::ssize(types); ++layer) {
    const auto found = apart.find(layer);
    const Json its = found == apart.end() ? Json::object() : found->second;
    const bool full = types[static_cast<size_t>(layer)] == kFull;
    if (full ? sizes && its != *sizes : !its.empty()) config.refuse(kPerLayer, expected);
    if (full) sizes = its;
  }
  words.erase(kFullKeyHeads);
  words[kFullHeadDim] = config.size("head_dim", kUsualHeadDim);
  for (const auto& [key, value] : sizes->items()) {
    const bool size = key == "head_dim", heads = key == "num_key_value_heads";
    if (!size && !heads) config.refuse(std::string(kPerLayer) + "." + key, "is not supported");
    words[size ? kFullHeadDim : kFullKeyHeads] = value;
  }
}

// As transformers has them where config.json is silent.
Json usual_positions() {
  return {{kSliding, {{"rope_type", "default"}, {"rope_theta", 10000.0}}},
          {kFull, {{"rope_type", "proportional"}, {"partial_rotary_factor", 0.25}, {"rope_theta", 1e6}}}};
}

}  // namespace

Json gemma4_in_gemma3s_words(const ConfigJson& config, const Json& json) {
  refuse_other_layers_of_gemma4(config);
  Json words = json;
  words[kLayerTypes] = types_of_layers(config);
  read_per_layer(config, words);
  words.erase(kBothWays);
  for (const char* key : {"num_experts", "top_k_experts"}) words.erase(key);  // without a block that has some
  const Json* positions = config.asked("rope_parameters");
  if (positions == nullptr) words["rope_parameters"] = usual_positions();
  for (const char* type : {kFull, kSliding}) {
    if (positions == nullptr || (positions->is_object() && positions->contains(type))) continue;
    config.refuse("rope_parameters", std::string("expected those of ") + kFull + " and of " + kSliding);
  }
  if (config.asked(kSoftcap) == nullptr) words[kSoftcap] = nullptr;
  return words;
}

void read_full_layers(const ConfigJson& words, std::vector<LayerSpec>& layers) {
  const int64_t head_dim = words.size(kFullHeadDim, 512);
  if (head_dim % 2 != 0) words.refuse(kFullHeadDim, "rotary positions need an even size of heads");
  const bool keys_are_values = words.flag(kKeysAreValues), by_layer = words.find(kPerLayer) != nullptr;
  for (LayerSpec& layer : layers) {
    layer.scalar = true;
    Attention& attention = layer.attention();
    attention.value_norm = true;
    if (attention.window > 0) continue;
    attention.head_dim = head_dim;
    attention.keys_are_values = keys_are_values;
    if (!(keys_are_values || by_layer) || words.find(kFullKeyHeads) == nullptr) continue;
    attention.key_value_heads = words.size(kFullKeyHeads);
    if (attention.heads % attention.key_value_heads != 0) {
      words.refuse(kFullKeyHeads, "does not divide num_attention_heads");
    }
  }
}

}  // namespace fathom::arch
