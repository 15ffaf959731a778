// The parameters that follow from a shape.
#include "arch/shape.h"

#include "base/bytes.h"
#include "base/error.h"

namespace fathom::arch {
namespace {

struct Linear {
  const char* name;  // within a layer
  std::vector<int64_t> shape;
  bool bias;
  const char* norm = nullptr;  // of the output
};

std::vector<Linear> attention_layers(const ModelShape& shape) {
  const int64_t queries = shape.num_attention_heads * shape.head_dim;
  const int64_t keys = shape.num_key_value_heads * shape.head_dim;
  const bool bias = shape.query_key_value_bias, normed = shape.query_key_norm != QueryKeyNorm::kNone;
  return {{"self_attn.q_proj", {queries, shape.hidden_size}, bias, normed ? "self_attn.q_norm" : nullptr},
          {"self_attn.k_proj", {keys, shape.hidden_size}, bias, normed ? "self_attn.k_norm" : nullptr},
          {"self_attn.v_proj", {keys, shape.hidden_size}, bias},
          {"self_attn.o_proj", {shape.hidden_size, queries}, shape.output_bias}};
}

std::vector<Linear> feed_forward_layers(const ModelShape& shape) {
  const bool bias = shape.feed_forward_bias;
  return {{"mlp.gate_proj", {shape.intermediate_size, shape.hidden_size}, bias},
          {"mlp.up_proj", {shape.intermediate_size, shape.hidden_size}, bias},
          {"mlp.down_proj", {shape.hidden_size, shape.intermediate_size}, bias}};
}

}  // namespace

LayerNorms layer_norms(const ModelShape& shape) {
  return shape.norms == NormPlacement::kBefore ? LayerNorms{"input_layernorm", "post_attention_layernorm"}
                                               : LayerNorms{"post_attention_layernorm", "post_feedforward_layernorm"};
}

ModelShape with_added_tokens(ModelShape shape, int64_t tokens) {
  shape.added_tokens = checked_add(shape.added_tokens, tokens, "added tokens");
  shape.vocab_size = checked_add(shape.vocab_size, tokens, "vocab_size");
  return shape;
}

int64_t ParameterSpec::elements() const {
  int64_t count = 1;
  for (int64_t size : shape) count = checked_multiply(count, size, name);
  return count;
}

std::vector<ParameterSpec> parameter_specs(const ModelShape& shape) {
  const std::vector<int64_t> by_token = {shape.vocab_size, shape.hidden_size}, width = {shape.hidden_size};
  const bool norms_before = shape.norms == NormPlacement::kBefore;
  const LayerNorms norms = layer_norms(shape);
  std::vector<ParameterSpec> specs;
  specs.push_back({"model.embed_tokens.weight", by_token, Role::kEmbedding});
  for (int64_t layer = 0; layer < shape.num_hidden_layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const auto add = [&](const std::string& name, std::vector<int64_t> sizes, Role role) {
      specs.push_back({prefix + name, std::move(sizes), role, layer});
    };
    const auto add_linears = [&](const std::vector<Linear>& linears) {
      for (const Linear& linear : linears) {
        const std::string name = linear.name;
        add(name + ".weight", linear.shape, Role::kProjection);
        if (linear.bias) add(name + ".bias", {linear.shape[0]}, Role::kBias);
        const int64_t normed = shape.query_key_norm == QueryKeyNorm::kEachHead ? shape.head_dim : linear.shape[0];
        if (linear.norm != nullptr) add(std::string(linear.norm) + ".weight", {normed}, Role::kNorm);
      }
    };
    const auto add_branch = [&](const char* norm, const std::vector<Linear>& linears) {
      const std::string name = std::string(norm) + ".weight";
      if (norms_before) add(name, width, Role::kNorm);
      add_linears(linears);
      if (!norms_before) add(name, width, Role::kNorm);
    };
    add_branch(norms.attention, attention_layers(shape));
    add_branch(norms.feed_forward, feed_forward_layers(shape));
  }
  specs.push_back({"model.norm.weight", width, Role::kNorm});
  if (!shape.tie_word_embeddings) specs.push_back({"lm_head.weight", by_token, Role::kHead});
  return specs;
}

int64_t parameter_count(const ModelShape& shape) {
  int64_t count = 0;
  for (const ParameterSpec& spec : parameter_specs(shape)) {
    count = checked_add(count, spec.elements(), "number of parameters");
  }
  return count;
}

}  // namespace fathom::arch
