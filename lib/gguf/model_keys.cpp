// The table of llama.cpp's architectures, after its src/models, and what its converter writes of them.
#include "gguf/model_keys.h"

#include <algorithm>
#include <numbers>
#include <utility>

#include "arch/rotary_frequencies.h"
#include "base/error.h"
#include "base/log.h"

namespace fathom::gguf {
namespace {

using arch::Architecture;
using arch::LayerSpec;
using arch::ParameterSpec;

constexpr LlamaCppArchitecture kArchitectures[] = {
    {"LlamaForCausalLM", "llama", true, true, true, true, false},
    {"MistralForCausalLM", "llama", true, true, true, true, false},
    {"Qwen2ForCausalLM", "qwen2", false, false, false, false, false},
    {"Qwen3ForCausalLM", "qwen3", false, false, false, true, false},
    {"Olmo2ForCausalLM", "olmo2", false, false, false, false, true},
};

// Of a module within a layer; empty where it has none.
std::string_view module_name(const LayerSpec& layer, std::string_view module) {
  const arch::LayerNames names = layer.names();
  const auto there = [](bool has, const char* name) { return std::string_view(has ? name : ""); };
  const std::pair<std::string_view, std::string_view> table[] = {
      {there(layer.norms_before(), names.attention.norm_before), "attn_norm"},
      {there(layer.norms_after(), names.attention.norm_after), "post_attention_norm"},
      {names.attention.query, "attn_q"},
      {names.attention.key, "attn_k"},
      {names.attention.value, "attn_v"},
      {names.attention.output, "attn_output"},
      {names.attention.query_norm, "attn_q_norm"},
      {names.attention.key_norm, "attn_k_norm"},
      {there(layer.norms_before(), names.feed_forward.norm_before), "ffn_norm"},
      {there(layer.norms_after(), names.feed_forward.norm_after), "post_ffw_norm"},
      {names.feed_forward.gate, "ffn_gate"},
      {names.feed_forward.up, "ffn_up"},
      {names.feed_forward.down, "ffn_down"},
  };
  const auto found =
      std::find_if(std::begin(table), std::end(table), [&](const auto& row) { return row.first == module; });
  return found == std::end(table) ? "" : found->second;
}

// Of every layer: the families here have one way of turning heads.
const arch::Rotary& rotary_of(const Architecture& model) { return *model.layers.front().attention.rotary; }

uint32_t number(int64_t value) { return static_cast<uint32_t>(value); }

[[noreturn]] void refuse(const LlamaCppArchitecture& target, const std::string& where, const std::string& what) {
  throw Error(where + ": " + what + ", which llama.cpp's '" + std::string(target.name) + "' does not have",
              "export a folder for transformers: leave out --format gguf");
}

void check_layer(const LayerSpec& layer, const Architecture& model, const LlamaCppArchitecture& target,
                 const std::string& where) {
  const auto& attention = layer.attention;
  if (!target.output_bias && (attention.output_bias || layer.feed_forward.bias)) {
    refuse(target, where, "attention_bias or mlp_bias gives biases to outputs");
  }
  if (!target.free_head_size && attention.queries() != model.hidden_size) {
    refuse(target, where,
           "the heads together are as wide as " + std::to_string(attention.queries()) + ", the model as " +
               std::to_string(model.hidden_size));
  }
}

}  // namespace

const LlamaCppArchitecture& llama_cpp_architecture(const Architecture& model, const std::string& where) {
  const auto target = std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                                   [&](const auto& row) { return row.family == model.family; });
  if (target == std::end(kArchitectures)) {
    std::string known;
    for (const LlamaCppArchitecture& row : kArchitectures) known.append(known.empty() ? "" : ", ").append(row.family);
    throw Error(where + ": " + model.family + " cannot be written as GGUF", "the families that can: " + known);
  }
  const arch::RopeScaling& scaling = rotary_of(model).scaling;
  if (std::holds_alternative<arch::Llama3Rope>(scaling) && !target->stretches) {
    refuse(*target, where, "rotary positions are stretched as Llama 3's");
  } else if (!std::holds_alternative<arch::Llama3Rope>(scaling) && !std::holds_alternative<std::monostate>(scaling)) {
    throw Error(
        where + ": its rotary positions are stretched otherwise than Llama 3's, which is not written as GGUF yet",
        "export a folder for transformers: leave out --format gguf");
  }
  for (const LayerSpec& layer : model.layers) check_layer(layer, model, *target, where);
  if (model.sliding_window() > 0) {
    log_warning(where + ": llama.cpp's '" + std::string(target->name) +
                "' has no sliding window: for texts longer than " + std::to_string(model.sliding_window()) +
                " tokens it computes something else than this model");
  }
  return *target;
}

weights::GgufKeys model_keys(const Architecture& model, const LlamaCppArchitecture& target, int64_t vocabulary) {
  const LayerSpec& layer = model.layers.front();
  const std::string name(target.name);
  weights::GgufKeys keys = {
      {name + ".block_count", number(model.num_hidden_layers())},
      {name + ".context_length", number(model.max_position_embeddings)},
      {name + ".embedding_length", number(model.hidden_size)},
      {name + ".feed_forward_length", number(layer.feed_forward.width)},
      {name + ".attention.head_count", number(layer.attention.heads)},
      {name + ".attention.head_count_kv", number(layer.attention.key_value_heads)},
      {name + ".attention.key_length", number(model.head_dim())},
      {name + ".attention.value_length", number(model.head_dim())},
      {name + ".attention.layer_norm_rms_epsilon", static_cast<float>(model.rms_norm_eps)},
      {name + ".rope.freq_base", static_cast<float>(rotary_of(model).theta)},
      {name + ".rope.dimension_count", number(model.head_dim())},
      {name + ".vocab_size", number(vocabulary)},
  };
  if (model.sliding_window() == 0) return keys;
  std::vector<bool> windowed;
  for (const LayerSpec& each : model.layers) windowed.push_back(each.attention.window > 0);
  keys.emplace_back(name + ".attention.sliding_window", number(model.sliding_window()));
  keys.emplace_back(name + ".attention.sliding_window_pattern", std::move(windowed));
  return keys;
}

std::string tensor_name(const ParameterSpec& spec, const Architecture& model) {
  const std::string ending = spec.name.substr(spec.name.rfind('.'));  // ".weight"
  const arch::ModelNames names = model.names();
  if (spec.layer == ParameterSpec::kNoLayer) {
    const std::string module = spec.module();
    return (module == names.embedding ? "token_embd" : module == names.norm ? "output_norm" : "output") + ending;
  }
  const std::string module = spec.module().substr(model.layer_prefix(spec.layer).size());
  const std::string_view name = module_name(model.layers[spec.layer], module);
  if (name.empty()) throw Error(spec.name + " has no name in a GGUF file");
  return "blk." + std::to_string(spec.layer) + "." + std::string(name) + ending;
}

int64_t heads_in_pairs(const ParameterSpec& spec, const Architecture& model, const LlamaCppArchitecture& target) {
  if (!target.rotates_neighbours || spec.layer == ParameterSpec::kNoLayer) return 0;
  const LayerSpec& layer = model.layers[spec.layer];
  const std::string module = spec.module().substr(model.layer_prefix(spec.layer).size());
  if (module == layer.names().attention.query) return layer.attention.heads;
  return module == layer.names().attention.key ? layer.attention.key_value_heads : 0;
}

int64_t row_in_pairs(int64_t row, int64_t rows, int64_t heads) {
  const int64_t size = rows / heads, first = row / size * size, within = row - first;
  return first + within / 2 + within % 2 * (size / 2);
}

std::vector<float> rope_factors(const Architecture& model) {
  arch::Rotary plain = rotary_of(model);
  const auto* llama3 = std::get_if<arch::Llama3Rope>(&plain.scaling);
  if (llama3 == nullptr) return {};
  const arch::Llama3Rope scaling = *llama3;
  plain.scaling = std::monostate();
  const auto original = static_cast<double>(scaling.original_positions);
  std::vector<float> factors;
  for (const float frequency : arch::rotary_frequencies(plain)) {
    const double wavelength = 2 * std::numbers::pi / double{frequency};
    const double blend = std::clamp((original / wavelength - scaling.low_frequency_factor) /
                                        (scaling.high_frequency_factor - scaling.low_frequency_factor),
                                    0.0, 1.0);
    factors.push_back(static_cast<float>(1 / ((1 - blend) / scaling.factor + blend)));
  }
  return factors;
}

}  // namespace fathom::gguf
