// The parameters that follow from an architecture.
#include "arch/architecture.h"

#include <algorithm>

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

std::vector<Linear> linears_of(const Attention& attention, int64_t width) {
  const int64_t queries = attention.queries(), keys = attention.keys();
  const bool bias = attention.input_bias, normed = attention.query_key_norm != QueryKeyNorm::kNone;
  return {{"self_attn.q_proj", {queries, width}, bias, normed ? "self_attn.q_norm" : nullptr},
          {"self_attn.k_proj", {keys, width}, bias, normed ? "self_attn.k_norm" : nullptr},
          {"self_attn.v_proj", {keys, width}, bias},
          {"self_attn.o_proj", {width, queries}, attention.output_bias}};
}

std::vector<Linear> linears_of(const FeedForward& feed_forward, int64_t width) {
  const auto [inner, bias] = feed_forward;
  return {{"mlp.gate_proj", {inner, width}, bias},
          {"mlp.up_proj", {inner, width}, bias},
          {"mlp.down_proj", {width, inner}, bias}};
}

}  // namespace

NormNames LayerSpec::norm_names() const {
  return norms_before() ? NormNames{"input_layernorm", "post_attention_layernorm"}
                        : NormNames{"post_attention_layernorm", "post_feedforward_layernorm"};
}

int64_t Architecture::sliding_window() const {
  int64_t window = 0;
  for (const LayerSpec& layer : layers) window = std::max(window, layer.attention.window);
  return window;
}

Architecture with_added_tokens(Architecture architecture, int64_t tokens) {
  architecture.added_tokens = checked_add(architecture.added_tokens, tokens, "added tokens");
  architecture.vocab_size = checked_add(architecture.vocab_size, tokens, "vocab_size");
  return architecture;
}

int64_t ParameterSpec::elements() const {
  int64_t count = 1;
  for (int64_t size : shape) count = checked_multiply(count, size, name);
  return count;
}

std::vector<ParameterSpec> parameter_specs(const Architecture& architecture) {
  const std::vector<int64_t> width = {architecture.hidden_size};
  const std::vector<int64_t> by_token = {architecture.vocab_size, architecture.hidden_size};
  std::vector<ParameterSpec> specs;
  specs.push_back({"model.embed_tokens.weight", by_token, Role::kEmbedding});
  for (int64_t number = 0; number < architecture.num_hidden_layers(); ++number) {
    const LayerSpec& layer = architecture.layers[static_cast<size_t>(number)];
    const std::string prefix = "model.layers." + std::to_string(number) + ".";
    const auto add = [&](const std::string& name, std::vector<int64_t> sizes, Role role) {
      specs.push_back({prefix + name, std::move(sizes), role, number});
    };
    const auto add_linears = [&](const std::vector<Linear>& linears) {
      const bool each_head = layer.attention.query_key_norm == QueryKeyNorm::kEachHead;
      for (const Linear& linear : linears) {
        const std::string name = linear.name;
        add(name + ".weight", linear.shape, Role::kProjection);
        if (linear.bias) add(name + ".bias", {linear.shape[0]}, Role::kBias);
        const int64_t normed = each_head ? layer.attention.head_dim : linear.shape[0];
        if (linear.norm != nullptr) add(std::string(linear.norm) + ".weight", {normed}, Role::kNorm);
      }
    };
    const auto add_branch = [&](const char* norm, const std::vector<Linear>& linears) {
      const std::string name = std::string(norm) + ".weight";
      if (layer.norms_before()) add(name, width, Role::kNorm);
      add_linears(linears);
      if (!layer.norms_before()) add(name, width, Role::kNorm);
    };
    add_branch(layer.norm_names().attention, linears_of(layer.attention, architecture.hidden_size));
    add_branch(layer.norm_names().feed_forward, linears_of(layer.feed_forward, architecture.hidden_size));
  }
  specs.push_back({"model.norm.weight", width, Role::kNorm});
  if (!architecture.tie_word_embeddings) specs.push_back({"lm_head.weight", by_token, Role::kHead});
  return specs;
}

int64_t parameter_count(const Architecture& architecture) {
  int64_t count = 0;
  for (const ParameterSpec& spec : parameter_specs(architecture)) {
    count = checked_add(count, spec.elements(), "number of parameters");
  }
  return count;
}

}  // namespace fathom::arch
