// The parameters that follow from a shape, and which of its layers adapters take.
#include "model/shape.h"

#include "base/bytes.h"
#include "base/error.h"

namespace fathom::model {
namespace {

struct Linear {
  const char* name;  // within a layer
  std::vector<int64_t> shape;
  bool bias;
  const char* norm = nullptr;  // of each head of the output
};

std::vector<Linear> attention_layers(const ModelShape& shape) {
  const int64_t queries = shape.num_attention_heads * shape.head_dim;
  const int64_t keys = shape.num_key_value_heads * shape.head_dim;
  const bool bias = shape.query_key_value_bias, normed = shape.query_key_norm;
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

bool ends_with_module(const std::string& name, const std::string& target) {
  return name == target || name.ends_with("." + target);
}

}  // namespace

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
  std::vector<ParameterSpec> specs;
  const auto add = [&](const std::string& prefix, const std::vector<Linear>& linears) {
    for (const Linear& linear : linears) {
      specs.push_back({prefix + linear.name + ".weight", linear.shape});
      if (linear.bias) specs.push_back({prefix + linear.name + ".bias", {linear.shape[0]}});
      if (linear.norm != nullptr) specs.push_back({prefix + linear.norm + ".weight", {shape.head_dim}});
    }
  };
  specs.push_back({"model.embed_tokens.weight", {shape.vocab_size, shape.hidden_size}});
  for (int64_t layer = 0; layer < shape.num_hidden_layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    specs.push_back({prefix + "input_layernorm.weight", {shape.hidden_size}});
    add(prefix, attention_layers(shape));
    specs.push_back({prefix + "post_attention_layernorm.weight", {shape.hidden_size}});
    add(prefix, feed_forward_layers(shape));
  }
  specs.push_back({"model.norm.weight", {shape.hidden_size}});
  if (!shape.tie_word_embeddings) specs.push_back({"lm_head.weight", {shape.vocab_size, shape.hidden_size}});
  return specs;
}

int64_t parameter_count(const ModelShape& shape) {
  int64_t count = 0;
  for (const ParameterSpec& spec : parameter_specs(shape)) {
    count = checked_add(count, spec.elements(), "number of parameters");
  }
  return count;
}

std::vector<std::string> adapted_modules(const ModelShape& shape, const std::vector<std::string>& targets) {
  static const std::vector<std::string> kDefault = {"q_proj", "v_proj"};
  const std::vector<std::string>& wanted = targets.empty() ? kDefault : targets;
  const bool all = wanted.size() == 1 && wanted[0] == "all-linear";

  std::vector<bool> matched(wanted.size(), all);
  std::vector<std::string> modules;
  for (int64_t layer = 0; layer < shape.num_hidden_layers; ++layer) {
    std::vector<Linear> linears = attention_layers(shape);
    for (Linear& linear : feed_forward_layers(shape)) linears.push_back(std::move(linear));
    for (const Linear& linear : linears) {
      const std::string name = "model.layers." + std::to_string(layer) + "." + linear.name;
      bool adapted = all;
      for (size_t index = 0; index < wanted.size(); ++index) {
        if (!ends_with_module(name, wanted[index])) continue;
        adapted = matched[index] = true;
      }
      if (adapted) modules.push_back(name);
    }
  }
  for (size_t index = 0; index < wanted.size(); ++index) {
    if (matched[index]) continue;
    throw UsageError("target_modules: '" + wanted[index] + "' matches no linear layer that can be adapted",
                     "name q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, or all-linear alone");
  }
  return modules;
}

}  // namespace fathom::model
