// Which layers have the gated delta rule, by layer_types or full_attention_interval, and its sizes.
#include "arch/read_qwen35.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/json_value.h"

namespace fathom::arch {
namespace {

constexpr const char* kInterval = "full_attention_interval";

std::vector<bool> read_which_are_deltas(const ConfigJson& config, size_t layers) {
  if (const auto types = config.layers_of_type("linear_attention", layers)) return *types;
  const int64_t interval = config.size(kInterval, 4);
  std::vector<bool> deltas;
  for (int64_t layer = 1; layer <= static_cast<int64_t>(layers); ++layer) deltas.push_back(layer % interval != 0);
  return deltas;
}

// Of these transformers computes one alone, whatever they say.
void refuse_other_layers(const ConfigJson& config) {
  if (config.find("attn_output_gate") != nullptr && !config.flag("attn_output_gate")) {
    config.refuse("attn_output_gate", "only true is supported");
  }
  for (const auto& [key, only] : {std::pair{"mamba_ssm_dtype", "float32"}, {"output_gate_type", "swish"}}) {
    const Json* said = config.find(key);
    if (said == nullptr || *said == only) continue;
    config.refuse(key, said->dump().substr(0, 80) + " is not supported (only " + only + ")");
  }
}

}  // namespace

void read_deltas(const ConfigJson& config, Architecture& architecture) {
  refuse_other_layers(config);
  const GatedDelta delta{.key_heads = config.size("linear_num_key_heads", 16),
                         .value_heads = config.size("linear_num_value_heads", 32),
                         .key_dim = config.size("linear_key_head_dim", 128),
                         .value_dim = config.size("linear_value_head_dim", 128),
                         .taps = config.size("linear_conv_kernel_dim", 4)};
  if (delta.value_heads % delta.key_heads != 0) {
    config.refuse("linear_num_value_heads", std::to_string(delta.value_heads) + " is no multiple of " +
                                                std::to_string(delta.key_heads) + ", the linear_num_key_heads");
  }
  // Rows of the projections that hold several of these, before anybody reckons with them.
  const int64_t keys = checked_multiply(delta.key_heads, delta.key_dim, "linear_key_head_dim");
  const int64_t values = checked_multiply(delta.value_heads, delta.value_dim, "linear_value_head_dim");
  checked_add(checked_multiply(2, keys, "in_proj_qkv"), values, "in_proj_qkv");
  const Attention& attention = architecture.layers.front().attention();
  checked_multiply(2, checked_multiply(attention.heads, attention.head_dim, "head_dim"), "q_proj");
  const std::vector<bool> deltas = read_which_are_deltas(config, architecture.layers.size());
  if (std::find(deltas.begin(), deltas.end(), false) == deltas.end()) {
    config.refuse(config.find(kLayerTypes) != nullptr ? kLayerTypes : kInterval, "expected a layer that attends");
  }
  for (size_t layer = 0; layer < deltas.size(); ++layer) {
    architecture.layers[layer].attention().output_gate = true;
    if (deltas[layer]) architecture.layers[layer].mixer = delta;
  }
}

}  // namespace fathom::arch
