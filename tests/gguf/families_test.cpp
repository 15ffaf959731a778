// What llama.cpp calls each family's tensors and keys, and what of it its graphs do not compute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/json_value.h"
#include "tests/gguf/golden_model.h"

namespace fathom::gguf {
namespace {

using arch::Architecture;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The name and the shape of each tensor, by the parameter's name; two where gate and up are parted.
std::multimap<std::string, std::pair<std::string, std::vector<int64_t>>> tensors_of(const Architecture& model) {
  std::multimap<std::string, std::pair<std::string, std::vector<int64_t>>> found;
  for (const arch::ParameterSpec& spec : arch::parameter_specs(model)) {
    for (const FileTensor& tensor : file_tensors(spec, model))
      found.emplace(spec.name, std::pair(tensor.name, tensor.shape));
  }
  return found;
}
std::string name_of(const Architecture& model, const std::string& parameter) {
  const auto tensors = tensors_of(model);
  const auto found = tensors.find(parameter);
  return found == tensors.end() ? "" : found->second.first;
}

// The keys of a model behind its architecture's name.
class KeysOf {
 public:
  explicit KeysOf(const Architecture& model) {
    const LlamaCppArchitecture& target = llama_cpp_architecture(model, "folder");
    for (const auto& [key, value] : model_keys(model, target, model.vocab_size)) {
      EXPECT_EQ(key.substr(0, target.name.size() + 1), std::string(target.name) + ".");
      values_[key.substr(target.name.size() + 1)] = value;
    }
    name = target.name;
  }
  bool has(const std::string& key) const { return values_.contains(key); }
  uint32_t count(const std::string& key) const { return std::get<uint32_t>(values_.at(key)); }
  float real(const std::string& key) const { return std::get<float>(values_.at(key)); }
  std::string text(const std::string& key) const { return std::get<std::string>(values_.at(key)); }
  std::vector<bool> flags(const std::string& key) const { return std::get<std::vector<bool>>(values_.at(key)); }

  std::string name;

 private:
  std::map<std::string, weights::GgufValue> values_;
};

bool turns_rows(const Architecture& model, const std::string& parameter) {
  const LlamaCppArchitecture& target = llama_cpp_architecture(model, "folder");
  for (const arch::ParameterSpec& spec : arch::parameter_specs(model)) {
    if (spec.name == parameter) return heads_in_pairs(spec, model, target) > 0;
  }
  ADD_FAILURE() << parameter;
  return false;
}
constexpr const char* kQueries = "model.layers.0.self_attn.q_proj.weight";

TEST(GgufFamilies, Gemma3) {
  const Architecture model = golden("gemma3", {{"query_pre_attn_scalar", 10}});
  EXPECT_EQ(name_of(model, "model.layers.0.post_attention_layernorm.weight"), "blk.0.post_attention_norm.weight");
  EXPECT_EQ(name_of(model, "model.layers.0.pre_feedforward_layernorm.weight"), "blk.0.ffn_norm.weight");
  EXPECT_EQ(name_of(model, "model.layers.5.post_feedforward_layernorm.weight"), "blk.5.post_ffw_norm.weight");
  EXPECT_EQ(name_of(model, "model.layers.5.self_attn.q_norm.weight"), "blk.5.attn_q_norm.weight");
  ::testing::internal::CaptureStderr();
  const KeysOf keys(model);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "llama.cpp has the window";
  EXPECT_EQ(keys.name, "gemma3");
  EXPECT_EQ(keys.real("rope.freq_base"), 1e6F);
  EXPECT_EQ(keys.real("rope.freq_base_swa"), 1e4F);
  EXPECT_EQ(keys.count("attention.sliding_window"), 6);
  EXPECT_THAT(keys.flags("attention.sliding_window_pattern"), ElementsAre(true, true, true, true, true, false));
  EXPECT_FALSE(turns_rows(model, kQueries));
  const KeysOf stretched(golden(
      "gemma3_stretched",
      {{"query_pre_attn_scalar", 16}, {"attention_bias", false}, {"num_hidden_layers", 6}, {"layer_types", nullptr}}));
  EXPECT_EQ(stretched.text("rope.scaling.type"), "linear");
  EXPECT_EQ(stretched.real("rope.scaling.factor"), 8);
  EXPECT_EQ(stretched.real("rope.freq_base"), 1e5F) << "of the layers without a window, whichever comes first";
  EXPECT_THAT(refusal(golden("gemma3")), HasSubstr("query_pre_attn_scalar is not 10"));
  EXPECT_THAT(refusal(golden("gemma3_stretched")), HasSubstr("biases to outputs"));
}

TEST(GgufFamilies, Gemma2) {
  const Json usual = {{"query_pre_attn_scalar", 10}};
  const Architecture model = golden("gemma2", usual);
  EXPECT_EQ(name_of(model, "model.layers.0.post_attention_layernorm.weight"), "blk.0.post_attention_norm.weight");
  EXPECT_EQ(name_of(model, "model.layers.1.pre_feedforward_layernorm.weight"), "blk.1.ffn_norm.weight");
  EXPECT_EQ(name_of(model, "model.layers.2.post_feedforward_layernorm.weight"), "blk.2.post_ffw_norm.weight");
  const KeysOf keys(model);
  EXPECT_EQ(keys.name, "gemma2");
  EXPECT_EQ(keys.real("attn_logit_softcapping"), 2);
  EXPECT_EQ(keys.real("final_logit_softcapping"), 5);
  EXPECT_EQ(keys.count("attention.sliding_window"), 6);
  EXPECT_EQ(keys.real("rope.freq_base_swa"), 1e4F) << "as of the other layers";
  EXPECT_FALSE(turns_rows(model, kQueries));
  EXPECT_THAT(refusal(golden("gemma2")), HasSubstr("query_pre_attn_scalar is not 10"));
  const auto refused = [&](Json changes) {
    changes.update(usual);
    return refusal(golden("gemma2", changes));
  };
  EXPECT_THAT(refused({{"tie_word_embeddings", false}}), HasSubstr("the head is a matrix of its own"));
  EXPECT_THAT(refused({{"attn_logit_softcapping", nullptr}}), HasSubstr("final_logit_softcapping is null"));
  EXPECT_THAT(refused({{"final_logit_softcapping", nullptr}}), HasSubstr("final_logit_softcapping is null"));
  EXPECT_THAT(refused({{"sliding_window", nullptr}, {"layer_types", nullptr}}), HasSubstr("no layer has a sliding"));
  EXPECT_THAT(refused({{"rope_parameters", {{"rope_type", "yarn"}, {"rope_theta", 1e4}, {"factor", 2}}}}),
              HasSubstr("stretched by yarn"));
  EXPECT_EQ(
      refusal(golden("gemma2", {{"num_hidden_layers", 46}, {"layer_types", nullptr}, {"query_pre_attn_scalar", 6}})),
      "")
      << "its 27B model scales by hidden_size / heads";
  Architecture apart = model;
  apart.layers[1].attention().rotary->theta = 77;
  EXPECT_THAT(refusal(apart), HasSubstr("another theta or stretch"));
}

TEST(GgufFamilies, ThoseThatDifferFromTheirSuccessorsByAFewSwitches) {
  const KeysOf gemma(golden("gemma"));
  EXPECT_EQ(gemma.name, "gemma");
  EXPECT_EQ(gemma.text("rope.scaling.type"), "linear");
  EXPECT_EQ(gemma.count("attention.key_length"), 10);
  EXPECT_FALSE(turns_rows(golden("gemma"), kQueries));
  EXPECT_THAT(refusal(golden("gemma", {{"tie_word_embeddings", false}})), HasSubstr("the head is a matrix of its own"));
  EXPECT_THAT(refusal(golden("gemma_biased")), HasSubstr("biases to outputs"));
  const KeysOf command_r(golden("cohere"));
  EXPECT_EQ(command_r.name, "command-r");
  EXPECT_EQ(command_r.real("logit_scale"), 0.5F);
  EXPECT_EQ(command_r.real("rope.freq_base"), 5e5F);
  EXPECT_FALSE(command_r.has("attention.sliding_window"));
  EXPECT_FALSE(turns_rows(golden("cohere"), kQueries)) << "it rotates neighbours itself";
  EXPECT_THAT(refusal(golden("cohere_biased")), HasSubstr("biases to outputs"));
  EXPECT_EQ(KeysOf(golden("ernie4_5")).name, "ernie4_5");
  EXPECT_FALSE(turns_rows(golden("ernie4_5"), kQueries)) << "it rotates neighbours itself";
  EXPECT_THAT(refusal(golden("ernie4_5_biased")), HasSubstr("biases to outputs"));
  const Architecture arcee = golden("arcee");
  EXPECT_EQ(KeysOf(arcee).name, "arcee");
  EXPECT_EQ(KeysOf(arcee).text("rope.scaling.type"), "yarn");
  EXPECT_TRUE(turns_rows(arcee, kQueries));
  EXPECT_EQ(name_of(arcee, "model.layers.1.mlp.up_proj.weight"), "blk.1.ffn_up.weight");
  EXPECT_THAT(refusal(golden("arcee_biased")), HasSubstr("biases to outputs"));
  for (const char* other : {"granite_hybrid", "seed_oss", "exaone4", "glm", "hunyuan", "gpt_oss"}) {
    EXPECT_THAT(refusal(golden(other)), HasSubstr("cannot be written as GGUF")) << other;
  }
}

TEST(GgufFamilies, Cohere2) {
  const Architecture model = golden("cohere2");
  EXPECT_EQ(name_of(model, "model.layers.3.input_layernorm.weight"), "blk.3.attn_norm.weight");
  EXPECT_EQ(name_of(model, "model.layers.3.mlp.down_proj.weight"), "blk.3.ffn_down.weight");
  const KeysOf keys(model);
  EXPECT_EQ(keys.name, "cohere2");
  EXPECT_EQ(keys.real("logit_scale"), 0.5F) << "what logits are multiplied by";
  EXPECT_EQ(keys.real("attention.layer_norm_epsilon"), 1e-5F);
  EXPECT_FALSE(keys.has("attention.layer_norm_rms_epsilon"));
  EXPECT_EQ(keys.count("attention.sliding_window"), 6);
  EXPECT_EQ(keys.real("rope.freq_base"), 1e4F) << "of the layers with a window, which alone are turned";
  EXPECT_FALSE(turns_rows(model, kQueries)) << "it rotates neighbours itself";
  EXPECT_THAT(refusal(golden("cohere2_biased")), HasSubstr("biases to outputs"));
  EXPECT_THAT(refusal(golden("cohere2_biased", {{"attention_bias", false}})),
              HasSubstr("the head is a matrix of its own"));
  EXPECT_THAT(refusal(golden("cohere2", {{"head_dim", 16}})), HasSubstr("the heads together are as wide as 64"));
  EXPECT_THAT(refusal(golden("cohere2", {{"sliding_window", nullptr}, {"layer_types", nullptr}})),
              HasSubstr("no layer has a sliding window"));
  const Json linear = {{"rope_type", "linear"}, {"rope_theta", 1e4}, {"factor", 2}};
  EXPECT_THAT(refusal(golden("cohere2", {{"rope_parameters", linear}})), HasSubstr("stretched by linear"));
}

TEST(GgufFamilies, Gpt2) {
  const Architecture model = golden("gpt2");
  EXPECT_EQ(name_of(model, "transformer.wte.weight"), "token_embd.weight");
  EXPECT_EQ(name_of(model, "transformer.wpe.weight"), "position_embd.weight");
  EXPECT_EQ(name_of(model, "transformer.h.1.ln_1.bias"), "blk.1.attn_norm.bias");
  EXPECT_EQ(name_of(model, "transformer.h.1.attn.c_attn.weight"), "blk.1.attn_qkv.weight");
  EXPECT_EQ(name_of(model, "transformer.h.1.attn.c_proj.bias"), "blk.1.attn_output.bias");
  EXPECT_EQ(name_of(model, "transformer.h.0.ln_2.weight"), "blk.0.ffn_norm.weight");
  EXPECT_EQ(name_of(model, "transformer.h.0.mlp.c_fc.weight"), "blk.0.ffn_up.weight");
  EXPECT_EQ(name_of(model, "transformer.h.0.mlp.c_proj.weight"), "blk.0.ffn_down.weight");
  EXPECT_EQ(name_of(model, "transformer.ln_f.bias"), "output_norm.bias");
  const KeysOf keys(model);
  EXPECT_EQ(keys.name, "gpt2");
  EXPECT_EQ(keys.count("context_length"), 64);
  EXPECT_EQ(keys.real("attention.layer_norm_epsilon"), 1e-5F);
  EXPECT_FALSE(keys.has("rope.freq_base"));
  EXPECT_EQ(name_of(golden("gpt2_narrow"), "lm_head.weight"), "output.weight");
}

// Which layers have a window is in the code of llama.cpp: all but the last of so many.
TEST(GgufFamilies, HaveWindowsWhereLlamaCppHasThem) {
  const auto refused = [](const std::string& name, Json changes) {
    changes["query_pre_attn_scalar"] = 10;  // of Gemma, as its heads are
    changes["attention_bias"] = false;
    return refusal(golden(name, changes));
  };
  for (const auto& [name, every] : {std::pair("gemma2", 2), {"gemma3", 6}, {"cohere2", 4}, {"olmo3_named", 4}}) {
    std::vector<const char*> types(12, "sliding_attention");
    for (size_t layer = 0; layer < types.size(); ++layer) {
      if ((layer + 1) % static_cast<size_t>(every) == 0) types[layer] = "full_attention";
    }
    EXPECT_EQ(refused(name, {{"num_hidden_layers", 12}, {"layer_types", types}}), "");
    std::swap(types[10], types[11]);
    const auto other_layers =
        HasSubstr("gives other layers a sliding window than all but one in " + std::to_string(every));
    EXPECT_THAT(refused(name, {{"num_hidden_layers", 12}, {"layer_types", types}}), other_layers) << name;
    types.assign(12, "sliding_attention");
    EXPECT_THAT(refused(name, {{"num_hidden_layers", 12}, {"layer_types", types}}), other_layers) << name;
  }
  EXPECT_THAT(refused("cohere2", {{"layer_types", nullptr}, {"sliding_window_pattern", 2}}),
              HasSubstr("all but one in 4"));
  EXPECT_EQ(refused("olmo3_named", {{"sliding_window", nullptr}, {"layer_types", nullptr}}), "")
      << "it needs no window";
}

TEST(GgufFamilies, Phi3) {
  const Architecture model = golden("phi3");
  EXPECT_EQ(name_of(model, "model.layers.1.self_attn.qkv_proj.weight"), "blk.1.attn_qkv.weight");
  EXPECT_EQ(name_of(model, "model.layers.1.mlp.gate_up_proj.weight"), "blk.1.ffn_up.weight");
  EXPECT_EQ(name_of(model, "model.layers.1.mlp.down_proj.weight"), "blk.1.ffn_down.weight");
  EXPECT_EQ(KeysOf(model).count("rope.dimension_count"), 6) << "three quarters of each head";
  const Architecture far = golden("phi3_long");
  const KeysOf keys(far);
  EXPECT_EQ(keys.name, "phi3");
  EXPECT_EQ(keys.count("rope.scaling.original_context_length"), 24);
  EXPECT_FLOAT_EQ(keys.real("rope.scaling.attn_factor"), std::sqrt(1 + std::log(4.0F) / std::log(24.0F)));
  const auto factors = rope_factors(far);
  ASSERT_EQ(factors.size(), 2);
  EXPECT_EQ(factors[0].name, "rope_factors_long.weight");
  EXPECT_THAT(factors[0].factors, ElementsAre(1, 2, 3.5F, 6, 9));
  EXPECT_EQ(factors[1].name, "rope_factors_short.weight");
  EXPECT_THAT(factors[1].factors, ElementsAre(1, 1.1F, 1.3F, 1.6F, 2));
}

TEST(GgufFamilies, Olmo3) {
  const KeysOf keys(
      golden("olmo3_named", {{"num_hidden_layers", 5}, {"layer_types", nullptr}, {"attention_bias", false}}));
  EXPECT_EQ(keys.name, "olmo2");
  EXPECT_EQ(keys.count("attention.sliding_window"), 5);
  EXPECT_THAT(keys.flags("attention.sliding_window_pattern"), ElementsAre(true, true, true, false, true));
  EXPECT_THAT(refusal(golden("olmo3")), HasSubstr("by yarn with another beta_fast or beta_slow than 32 and 1"));
  Architecture model = golden("olmo3");
  for (arch::LayerSpec& layer : model.layers) {
    if (auto* yarn = std::get_if<arch::YarnRope>(&layer.attention().rotary->scaling)) {
      yarn->fast_turns = 32;
      yarn->slow_turns = 1;
    }
  }
  const KeysOf stretched(model);
  EXPECT_EQ(stretched.text("rope.scaling.type"), "yarn");
  EXPECT_EQ(stretched.real("rope.scaling.factor"), 4);
  EXPECT_EQ(stretched.count("rope.scaling.original_context_length"), 24);
  EXPECT_FLOAT_EQ(stretched.real("rope.scaling.attn_factor"), 1.2F / (0.1F * std::log(4.0F) + 1));
  EXPECT_FALSE(stretched.has("rope.scaling.yarn_beta_fast"));
  model.layers.front().attention().rotary->theta = 77;
  EXPECT_THAT(refusal(model), HasSubstr("another theta or stretch"));
}

TEST(GgufFamilies, Granite) {
  const Architecture model = golden("granite");
  const KeysOf keys(model);
  EXPECT_EQ(keys.name, "granite");
  EXPECT_EQ(keys.real("attention.scale"), 0.3F);
  EXPECT_EQ(keys.real("embedding_scale"), 3);
  EXPECT_EQ(keys.real("residual_scale"), 0.4F);
  EXPECT_EQ(keys.real("logit_scale"), 0.5F) << "what logits are divided by";
  EXPECT_TRUE(turns_rows(model, kQueries));
  EXPECT_EQ(refusal(golden("granite_biased")), "");
}

TEST(GgufFamilies, SmolLM3) {
  const Architecture model = golden("smollm3");
  const KeysOf keys(model);
  EXPECT_EQ(keys.name, "smollm3");
  EXPECT_EQ(keys.text("rope.scaling.type"), "linear");
  EXPECT_EQ(keys.real("rope.scaling.factor"), 3);
  EXPECT_TRUE(turns_rows(model, kQueries));
  EXPECT_TRUE(turns_rows(model, "model.layers.3.self_attn.k_proj.weight")) << "as its converter does, turned or not";
  EXPECT_THAT(refusal(golden("smollm3", {{"no_rope_layers", {1, 1, 0, 1}}})), HasSubstr("no_rope_layers"));
  EXPECT_THAT(refusal(golden("smollm3_biased")), HasSubstr("biases to outputs"));
}

TEST(GgufFamilies, Glm4) {
  const Architecture model = golden("glm4");
  EXPECT_EQ(name_of(model, "model.layers.0.post_self_attn_layernorm.weight"), "blk.0.post_attention_norm.weight");
  EXPECT_EQ(name_of(model, "model.layers.0.post_attention_layernorm.weight"), "blk.0.ffn_norm.weight");
  EXPECT_EQ(name_of(model, "model.layers.0.post_mlp_layernorm.weight"), "blk.0.post_ffw_norm.weight");
  EXPECT_EQ(name_of(model, "model.layers.0.mlp.gate_up_proj.weight"), "blk.0.ffn_up.weight");
  EXPECT_EQ(name_of(model, "model.layers.0.self_attn.k_proj.bias"), "blk.0.attn_k.bias");
  EXPECT_EQ(KeysOf(model).name, "glm4");
  EXPECT_EQ(KeysOf(model).count("rope.dimension_count"), 6) << "half of each head";
  EXPECT_FALSE(turns_rows(model, kQueries)) << "it rotates neighbours itself";
}

TEST(GgufFamilies, Ministral3) {
  const KeysOf keys(golden("ministral3"));
  EXPECT_EQ(keys.name, "mistral3");
  EXPECT_EQ(keys.text("rope.scaling.type"), "yarn");
  EXPECT_EQ(keys.real("rope.scaling.factor"), 16);
  EXPECT_EQ(keys.count("rope.scaling.original_context_length"), 10);
  EXPECT_EQ(keys.real("rope.scaling.yarn_beta_fast"), 32);
  EXPECT_EQ(keys.real("attention.temperature_scale"), 0.3F);
  EXPECT_FLOAT_EQ(keys.real("rope.scaling.attn_factor"), 1 / (0.1F * std::log(16.0F) + 1))
      << "its mscale and mscale_all_dim are the same";
  EXPECT_THAT(refusal(golden("ministral3_windowed")), HasSubstr("truncate: false"));
  Architecture model = golden("ministral3");
  std::get<arch::YarnRope>(model.layers.front().attention().rotary->scaling).original_positions = 6;
  EXPECT_THAT(refusal(model), HasSubstr("fewer positions"));
}

TEST(GgufFamilies, StackExperts) {
  const Architecture model = golden("qwen3_moe", {{"mlp_only_layers", Json::array()}});
  const auto tensors = tensors_of(model);
  const auto [first, last] = tensors.equal_range("model.layers.0.mlp.experts.gate_up_proj");
  ASSERT_EQ(std::distance(first, last), 2);
  EXPECT_EQ(first->second, std::pair(std::string("blk.0.ffn_gate_exps.weight"), std::vector<int64_t>{5, 19, 24}));
  EXPECT_EQ(std::next(first)->second,
            std::pair(std::string("blk.0.ffn_up_exps.weight"), std::vector<int64_t>{5, 19, 24}));
  EXPECT_EQ(tensors.find("model.layers.0.mlp.experts.down_proj")->second,
            std::pair(std::string("blk.0.ffn_down_exps.weight"), std::vector<int64_t>{5, 24, 19}));
  EXPECT_EQ(name_of(model, "model.layers.0.mlp.gate.weight"), "blk.0.ffn_gate_inp.weight");
  const KeysOf keys(model);
  EXPECT_EQ(keys.name, "qwen3moe");
  EXPECT_EQ(keys.count("expert_count"), 5);
  EXPECT_EQ(keys.count("expert_used_count"), 2);
  EXPECT_EQ(keys.count("expert_feed_forward_length"), 19);
  EXPECT_THAT(refusal(golden("qwen3_moe")), HasSubstr("some layers have no experts"));
  EXPECT_THAT(refusal(golden("qwen3_moe_windowed")), HasSubstr("norm_topk_prob is false"));
}

TEST(GgufFamilies, OtherMixturesOfExperts) {
  EXPECT_EQ(KeysOf(golden("mixtral")).name, "llama");
  EXPECT_TRUE(turns_rows(golden("mixtral"), kQueries));
  EXPECT_EQ(KeysOf(golden("granite_moe")).name, "granitemoe");
  EXPECT_EQ(KeysOf(golden("granite_moe")).real("logit_scale"), 0.7F);
  EXPECT_EQ(name_of(golden("granite_moe"), "model.layers.1.block_sparse_moe.router.weight"),
            "blk.1.ffn_gate_inp.weight");
  EXPECT_EQ(name_of(golden("granite_moe"), "model.layers.1.block_sparse_moe.experts.down_proj"),
            "blk.1.ffn_down_exps.weight");
  const KeysOf olmoe(golden("olmoe", {{"num_key_value_heads", 4}}));
  EXPECT_EQ(olmoe.name, "olmoe");
  EXPECT_EQ(olmoe.count("expert_count"), 6);
  EXPECT_THAT(refusal(golden("olmoe")), HasSubstr("num_key_value_heads makes heads share"));
  EXPECT_THAT(refusal(golden("olmoe_normalised", {{"attention_bias", false}})),
              HasSubstr("norm_topk_prob makes the weights of the chosen experts add up to one"));
}

TEST(GgufFamilies, StretchesThatMostArchitecturesHave) {
  Architecture model = golden("grouped");
  for (arch::LayerSpec& layer : model.layers) layer.attention().rotary->scaling = arch::LinearRope{2};
  EXPECT_EQ(KeysOf(model).real("rope.scaling.factor"), 2);
  for (arch::LayerSpec& layer : model.layers) {
    layer.attention().rotary->scaling = arch::YarnRope{.factor = 2};
    layer.attention().rotary->magnitude = 0.1 * std::log(2) + 1;
  }
  EXPECT_EQ(KeysOf(model).text("rope.scaling.type"), "yarn");
  EXPECT_FALSE(KeysOf(model).has("rope.scaling.attn_factor")) << "llama.cpp's own";
  for (arch::LayerSpec& layer : model.layers) layer.attention().rotary->scaling = arch::LongRope{{1}, {2}};
  EXPECT_THAT(refusal(model), HasSubstr("stretched by longrope"));
}

}  // namespace
}  // namespace fathom::gguf
