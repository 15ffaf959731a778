// What llama.cpp calls a model's tensors, after gguf-py's constants, and in which order it has their rows.
#include <utility>

#include "base/error.h"
#include "gguf/model_keys.h"

namespace fathom::gguf {
namespace {

using arch::Architecture;
using arch::LayerSpec;
using arch::ParameterSpec;

// Of a module within a layer; empty where it has none.
std::string_view module_name(const LayerSpec& layer, std::string_view module) {
  const arch::LayerNames names = layer.names();
  const bool t5 = layer.naming == arch::Naming::kT5;
  const auto there = [](bool has, const char* name) { return has ? name : nullptr; };
  const std::pair<const char*, std::string_view> table[] = {
      {there(layer.norms_before(), names.attention.norm_before), "attn_norm"},
      {there(layer.norms_after(), names.attention.norm_after), "post_attention_norm"},
      {there(layer.attention().fused, names.attention.fused), "attn_qkv"},
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
      {there(layer.feed_forward.fused, names.feed_forward.fused), "ffn_up"},
      {names.feed_forward.router, "ffn_gate_inp"},
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
  if (spec.role == arch::Role::kPositions) return "position_embd";
  if (module == names.norm) return model.encoder ? "dec.output_norm" : "output_norm";
  return spec.role == arch::Role::kHead ? "output" : "enc.output_norm";
}

}  // namespace

std::string tensor_name(const ParameterSpec& spec, const Architecture& model) {
  const std::string ending = spec.name.substr(spec.name.rfind('.'));  // ".weight"
  if (spec.layer == ParameterSpec::kNoLayer) return outer_name(spec, model) + ending;
  const std::string module = spec.module().substr(model.layer_prefix(spec.layer).size());
  const std::string_view name = module_name(model.layers[spec.layer], module);
  if (name.empty()) throw Error(spec.name + " has no name in a GGUF file");
  return block_name(model, spec.layer) + std::string(name) + ending;
}

std::vector<FileTensor> file_tensors(const ParameterSpec& spec, const Architecture& model) {
  if (spec.role != arch::Role::kExperts) return {{tensor_name(spec, model), spec.shape, 0, spec.shape.front()}};
  const std::string block = block_name(model, spec.layer);
  const int64_t rows = spec.shape[0] / spec.experts, columns = spec.shape[1], half = rows / 2;
  if (spec.name.ends_with(".down_proj")) {
    return {{block + "ffn_down_exps.weight", {spec.experts, rows, columns}, 0, rows}};
  }
  return {{block + "ffn_gate_exps.weight", {spec.experts, half, columns}, 0, half},
          {block + "ffn_up_exps.weight", {spec.experts, half, columns}, half, half}};
}

int64_t heads_in_pairs(const ParameterSpec& spec, const Architecture& model, const LlamaCppArchitecture& target) {
  if (!target.rotates_neighbours || spec.layer == ParameterSpec::kNoLayer) return 0;
  if (rotary_of(model).interleaved || model.layers[spec.layer].attention().fused) return 0;
  const LayerSpec& layer = model.layers[spec.layer];
  const std::string module = spec.module().substr(model.layer_prefix(spec.layer).size());
  if (module == layer.names().attention.query) return layer.attention().heads;
  return module == layer.names().attention.key ? layer.attention().key_value_heads : 0;
}

int64_t row_in_pairs(int64_t row, int64_t rows, int64_t heads) {
  const int64_t size = rows / heads, first = row / size * size, within = row - first;
  return first + within / 2 + within % 2 * (size / 2);
}

}  // namespace fathom::gguf
