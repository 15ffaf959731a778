// The table of llama.cpp's architectures, after its src/models, and what its converter writes of them.
#include "gguf/model_keys.h"

#include <algorithm>
#include <iterator>
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
    {"T5ForConditionalGeneration", "t5", false, false, false, true, false},
};

// Of a module within a layer; empty where it has none.
std::string_view module_name(const LayerSpec& layer, std::string_view module) {
  const arch::LayerNames names = layer.names();
  const bool t5 = layer.naming == arch::Naming::kT5;
  const auto there = [](bool has, const char* name) { return has ? name : nullptr; };
  const std::pair<const char*, std::string_view> table[] = {
      {there(layer.norms_before(), names.attention.norm_before), "attn_norm"},
      {there(layer.norms_after(), names.attention.norm_after), "post_attention_norm"},
      {names.attention.query, "attn_q"},
      {names.attention.key, "attn_k"},
      {names.attention.value, "attn_v"},
      {names.attention.output, t5 ? "attn_o" : "attn_output"},
      {names.attention.query_norm, "attn_q_norm"},
      {names.attention.key_norm, "attn_k_norm"},
      {names.cross.norm_before, "cross_attn_norm"},
      {names.cross.query, "cross_attn_q"},
      {names.cross.key, "cross_attn_k"},
      {names.cross.value, "cross_attn_v"},
      {names.cross.output, "cross_attn_o"},
      {there(layer.norms_before(), names.feed_forward.norm_before), "ffn_norm"},
      {there(layer.norms_after(), names.feed_forward.norm_after), "post_ffw_norm"},
      {names.feed_forward.gate, "ffn_gate"},
      {names.feed_forward.up, "ffn_up"},
      {names.feed_forward.down, "ffn_down"},
  };
  for (const auto& [ours, theirs] : table) {
    const bool has_module = ours != nullptr && (layer.cross || !theirs.starts_with("cross"));
    if (has_module && module == ours) return theirs;
  }
  return "";
}

// "enc.blk.0." of a layer, which is counted over both stacks; of a decoder alone "blk.0.".
std::string block_name(const Architecture& model, int64_t layer) {
  const int64_t first = model.encoder_layers();
  const std::string number = std::to_string(layer < first ? layer : layer - first) + ".";
  return (!model.encoder ? "blk." : layer < first ? "enc.blk." : "dec.blk.") + number;
}

// Of a module outside the layers.
std::string outer_name(const ParameterSpec& spec, const Architecture& model) {
  const arch::ModelNames names = model.names();
  const std::string module = spec.module();
  if (spec.role == arch::Role::kRelativeBias) {
    const bool of_encoder = module.starts_with(names.encoder_layers);
    return block_name(model, of_encoder ? 0 : model.encoder_layers()) + "attn_rel_b";
  }
  if (module == names.embedding) return "token_embd";
  if (module == names.norm) return model.encoder ? "dec.output_norm" : "output_norm";
  return spec.role == arch::Role::kHead ? "output" : "enc.output_norm";
}

// Of every layer: the families here have one way of turning heads, or none.
arch::Rotary rotary_of(const Architecture& model) {
  return model.layers.front().attention.rotary.value_or(arch::Rotary());
}

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

// What llama.cpp's T5 has written into its code.
void check_t5(const Architecture& model, const LlamaCppArchitecture& target, const std::string& where) {
  constexpr int64_t kMaxDistance = 128;
  const auto& feed_forward = model.layers.front().feed_forward;
  if (model.num_hidden_layers() > 2 * model.encoder_layers()) {  // it has a place for as many as the encoder has
    refuse(target, where, "the decoder has more layers than the encoder");
  }
  if (model.relative->max_distance != kMaxDistance) {
    refuse(target, where, "relative_attention_max_distance is " + std::to_string(model.relative->max_distance));
  }
  if (feed_forward.activation != (feed_forward.gated ? Activation::kGelu : Activation::kRelu)) {
    refuse(target, where, "feed_forward_proj is neither relu nor gated-gelu");
  }
}

// And its keys.
weights::GgufKeys t5_keys(const Architecture& model, const std::string& name, int64_t vocabulary) {
  const LayerSpec& layer = model.layers.front();
  const auto eps = static_cast<float>(model.norm_eps);
  return {
      {name + ".context_length", number(model.max_position_embeddings)},
      {name + ".embedding_length", number(model.hidden_size)},
      {name + ".feed_forward_length", number(layer.feed_forward.width)},
      {name + ".block_count", number(model.encoder_layers())},
      {name + ".decoder_block_count", number(model.num_hidden_layers() - model.encoder_layers())},
      {name + ".attention.head_count", number(layer.attention.heads)},
      {name + ".attention.key_length", number(model.head_dim())},
      {name + ".attention.value_length", number(model.head_dim())},
      {name + ".attention.layer_norm_epsilon", eps},
      {name + ".attention.relative_buckets_count", number(model.relative->buckets)},
      {name + ".attention.layer_norm_rms_epsilon", eps},
      {name + ".decoder_start_token_id", number(model.encoder->decoder_start_token_id)},
      {name + ".vocab_size", number(vocabulary)},
  };
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
  const arch::RopeScaling scaling = rotary_of(model).scaling;
  if (std::holds_alternative<arch::Llama3Rope>(scaling)) {
    if (!target->stretches) refuse(*target, where, "rotary positions are stretched as Llama 3's");
  } else if (!std::holds_alternative<std::monostate>(scaling)) {
    throw Error(
        where + ": its rotary positions are stretched otherwise than Llama 3's, which is not written as GGUF yet",
        "export a folder for transformers: leave out --format gguf");
  }
  if (model.encoder) check_t5(model, *target, where);
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
  if (model.encoder) return t5_keys(model, name, vocabulary);
  weights::GgufKeys keys = {
      {name + ".block_count", number(model.num_hidden_layers())},
      {name + ".context_length", number(model.max_position_embeddings)},
      {name + ".embedding_length", number(model.hidden_size)},
      {name + ".feed_forward_length", number(layer.feed_forward.width)},
      {name + ".attention.head_count", number(layer.attention.heads)},
      {name + ".attention.head_count_kv", number(layer.attention.key_value_heads)},
      {name + ".attention.key_length", number(model.head_dim())},
      {name + ".attention.value_length", number(model.head_dim())},
      {name + ".attention.layer_norm_rms_epsilon", static_cast<float>(model.norm_eps)},
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
  if (spec.layer == ParameterSpec::kNoLayer) return outer_name(spec, model) + ending;
  const std::string module = spec.module().substr(model.layer_prefix(spec.layer).size());
  const std::string_view name = module_name(model.layers[spec.layer], module);
  if (name.empty()) throw Error(spec.name + " has no name in a GGUF file");
  return block_name(model, spec.layer) + std::string(name) + ending;
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
