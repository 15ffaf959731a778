// Which rows the table has, and which of them are trained, adapted or in codes.
#include "arch/parameter_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "arch/run.h"
#include "base/error.h"
#include "base/json_value.h"

namespace fathom::arch {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Names = std::vector<std::string>;

class ParameterTables : public ::testing::Test {
 protected:
  ParameterTables() {
    architecture_.vocab_size = 11;
    architecture_.hidden_size = 6;
    architecture_.layers.assign(1, {.mixer = arch::Attention{.heads = 2,
                                                             .key_value_heads = 2,
                                                             .head_dim = 4,
                                                             .input_bias = true,
                                                             .query_key_norm = QueryKeyNorm::kEachHead},
                                    .feed_forward = {.width = 10}});
  }
  ParameterTable table(const Names& targets, const Names& saved = {}) const {
    return parameter_table(architecture_,
                           {.lora = LoraOptions{.r = 3, .target_modules = targets, .modules_to_save = saved}});
  }
  // Sorted.
  std::set<std::string> saved(const Names& modules) const {
    std::set<std::string> names;
    for (const ParameterRow& row : table({"q_proj"}, modules).rows) {
      if (row.trained && row.of_base()) names.insert(row.spec.name);
    }
    return names;
  }
  Names adapted(const Names& targets) const {
    Names names;
    for (const ParameterRow& row : table(targets).rows) {
      if (row.adapted()) names.push_back(row.spec.module());
    }
    return names;
  }
  std::string refusal(const Names& modules) const {
    try {
      saved(modules);
      return "taken";
    } catch (const UsageError& error) {
      return error.what();
    }
  }
  Architecture architecture_;
};

TEST_F(ParameterTables, SaveWhatModulesWithSuchAnEndHave) {
  EXPECT_THAT(saved({}), IsEmpty());
  EXPECT_THAT(saved({"lm_head", "embed_tokens"}), ElementsAre("lm_head.weight", "model.embed_tokens.weight"));
  EXPECT_THAT(saved({"norm"}),
              ElementsAre("model.layers.0.input_layernorm.weight", "model.layers.0.post_attention_layernorm.weight",
                          "model.layers.0.self_attn.k_norm.weight", "model.layers.0.self_attn.q_norm.weight",
                          "model.norm.weight"));
  EXPECT_THAT(saved({"model.norm"}), ElementsAre("model.norm.weight"));
  EXPECT_THAT(saved({"k_proj"}),
              ElementsAre("model.layers.0.self_attn.k_proj.bias", "model.layers.0.self_attn.k_proj.weight"));
}

TEST_F(ParameterTables, TakeATiedHeadForTheEmbedding) {
  architecture_.tie_word_embeddings = true;
  for (const char* name : {"lm_head", "embed_tokens"}) {
    EXPECT_THAT(saved({name}), ElementsAre("model.embed_tokens.weight")) << name;
    EXPECT_TRUE(table({"q_proj"}, {name}).trains_head()) << name;
  }
  EXPECT_FALSE(table({"q_proj"}, {"norm"}).trains_head());
}

TEST_F(ParameterTables, RefuseToSaveWhatMatchesNothingOrAnAdapter) {
  EXPECT_THAT(refusal({"norm", "wte"}), AllOf(HasSubstr("'wte' matches no module"), HasSubstr("embed_tokens")));
  EXPECT_THAT(refusal({"mlp"}), HasSubstr("'mlp' matches no module with weights of its own"));
  EXPECT_THAT(refusal({"mlp"}), HasSubstr("; name embed_tokens, input_layernorm, q_norm, k_norm, "
                                          "post_attention_layernorm, norm (all norms), lm_head, or a projection"));
  architecture_.layers.front().attention().query_key_norm = QueryKeyNorm::kNone;
  EXPECT_THAT(refusal({"q_norm"}), HasSubstr("; name embed_tokens, input_layernorm, post_attention_layernorm, norm ("));
  EXPECT_THAT(refusal({"_proj"}), HasSubstr("model.layers.0.self_attn.q_proj, which gets an adapter"));
}

// GPT-2's norms have no common end, and its projections are stored transposed.
TEST_F(ParameterTables, NameWhatGpt2CanSave) {
  const Json gpt2 = {{"model_type", "gpt2"}, {"n_embd", 12}, {"n_layer", 1}, {"n_head", 2}};
  architecture_ = parse_architecture(gpt2, "config.json");
  for (const char* name : {"wte", "wpe", "ln_1", "ln_2", "ln_f", "lm_head"}) {
    EXPECT_NO_THROW(table({"c_attn"}, {name})) << name;
  }
  for (const char* name : {"norm", "embed_tokens"}) {
    try {
      table({"c_attn"}, {name});
      FAIL() << name;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), ::testing::EndsWith("; name wte, wpe, ln_1, ln_2, ln_f, or lm_head")) << name;
    }
  }
}

TEST_F(ParameterTables, OfFullTrainingTrainTheBase) {
  config::RunConfig run;
  EXPECT_EQ(resolve(run, architecture_).parameters.rows.size(), parameter_specs(architecture_).size());
  EXPECT_EQ(resolve(run, architecture_).parameters.trained_base_count(), parameter_count(architecture_));
  EXPECT_EQ(resolve(run, architecture_).parameters.adapter_count(), 0);
  run.method = config::Method::kLora;
  EXPECT_EQ(resolve(run, architecture_).parameters.trained_base_count(), 0);
  run.modules_to_save = {"lm_head"};
  EXPECT_EQ(resolve(run, architecture_).parameters.trained_base_count(), 11 * 6);
  EXPECT_TRUE(resolve(run, architecture_).parameters.trains_head());
}

TEST_F(ParameterTables, ListAdaptersBehindTheBaseAsPeftNamesThem) {
  const ParameterTable both = table({"down_proj", "q_proj"});
  const size_t base = parameter_specs(architecture_).size();
  ASSERT_EQ(both.rows.size(), base + 4);
  const ParameterRow &a = both.rows[base], &b = both.rows[base + 1];
  EXPECT_EQ(a.spec.name, "model.layers.0.self_attn.q_proj.lora_A.weight");
  EXPECT_THAT(a.spec.shape, ElementsAre(3, 6));
  EXPECT_EQ(b.spec.name, "model.layers.0.self_attn.q_proj.lora_B.weight");
  EXPECT_THAT(b.spec.shape, ElementsAre(8, 3));
  EXPECT_TRUE(a.trained && b.trained && a.decays() && b.decays());
  EXPECT_FALSE(a.of_base());
  EXPECT_EQ(a.spec.layer, 0);
  EXPECT_EQ(both.adapter_count(), 3 * (6 + 8) + 3 * (10 + 6));
  EXPECT_EQ(both.trained_count(), both.adapter_count());
  EXPECT_EQ(both.count(), parameter_count(architecture_) + both.adapter_count());
}

TEST_F(ParameterTables, KeepFrozenProjectionsInCodes) {
  const ParameterTable coded = parameter_table(
      architecture_,
      {.base_scheme = quant::Scheme::kInt8,
       .lora = LoraOptions{.r = 3, .target_modules = {"q_proj"}, .modules_to_save = {"k_proj", "lm_head"}}});
  for (const ParameterRow& row : coded.rows) {
    const bool codes = row.spec.role == Role::kProjection && row.spec.module() != "model.layers.0.self_attn.k_proj";
    EXPECT_EQ(row.codes.has_value(), codes) << row.spec.name;
    EXPECT_EQ(row.value_bytes() > 0, !codes) << row.spec.name;
    EXPECT_EQ(row.code_bytes(), codes ? row.spec.elements() + 4 * row.spec.shape[0] : 0) << row.spec.name;
  }
  EXPECT_EQ(coded.coded_count(), 2 * 8 * 6 + 6 * 8 + 3 * 10 * 6);
}

TEST_F(ParameterTables, HaveStepSizesBehindWhatIsFakeQuantized) {
  const ParameterTable qat = parameter_table(architecture_, {.fake_scheme = quant::Scheme::kInt8});
  EXPECT_EQ(qat.count_of(Role::kStepSizes), 3 * 8 + 6 + 10 + 10 + 6);
  for (size_t i = 0; i < qat.rows.size(); ++i) {
    if (qat.rows[i].spec.role != Role::kProjection) continue;
    const ParameterRow& sizes = qat.rows[i + 1];
    EXPECT_EQ(sizes.spec.name, qat.rows[i].spec.module() + ".int8_log_steps");
    EXPECT_EQ(sizes.dtype, DType::kF32);
    EXPECT_TRUE(sizes.trained);
    EXPECT_FALSE(sizes.decays());
    EXPECT_TRUE(is_name_of_step_sizes(sizes.spec.name));
  }
}

TEST_F(ParameterTables, AdaptFusedQueriesKeysAndValuesUnlessTold) {
  architecture_.layers.front().attention().fused = true;
  EXPECT_THAT(adapted({}), ElementsAre("model.layers.0.self_attn.qkv_proj"));
}

TEST_F(ParameterTables, MatchTargetsAsPeft) {
  architecture_.layers.resize(2, architecture_.layers.front());
  EXPECT_THAT(adapted({}), ElementsAre("model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.v_proj",
                                       "model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.v_proj"));
  EXPECT_THAT(adapted({"down_proj", "self_attn.k_proj"}),
              ElementsAre("model.layers.0.self_attn.k_proj", "model.layers.0.mlp.down_proj",
                          "model.layers.1.self_attn.k_proj", "model.layers.1.mlp.down_proj"));
  EXPECT_THAT(adapted({"model.layers.1.mlp.up_proj"}), ElementsAre("model.layers.1.mlp.up_proj"));
  EXPECT_EQ(adapted({"all-linear"}).size(), 14u);
  for (const Names& none : {Names{"proj"},
                            {"q_proj", "query"},
                            {"lm_head"},
                            {"embed_tokens"},
                            {"all-linear", "q_proj"},
                            {""},
                            {"model.layers.2.mlp.up_proj"}}) {
    EXPECT_THROW(table(none), UsageError) << none.back();
  }
}

// Two layers of an encoder and one of its decoder.
Architecture tiny_t5(bool gated) {
  Architecture architecture;
  architecture.vocab_size = 11;
  architecture.hidden_size = 6;
  LayerSpec layer{.mixer = arch::Attention{.heads = 2, .key_value_heads = 2, .head_dim = 4, .scaled = false},
                  .feed_forward = {.width = 10, .gated = gated, .activation = Activation::kGelu},
                  .naming = Naming::kT5};
  architecture.layers.assign(2, layer);
  layer.cross = true;
  architecture.layers.push_back(layer);
  architecture.encoder = Encoder{2, 0};
  architecture.relative = RelativePositions{8, 20};
  architecture.initializer_range = 3;
  return architecture;
}

TEST_F(ParameterTables, NameAnEncoderAndItsDecoderAsHuggingFace) {
  const auto names = [](const Architecture& architecture, const std::string& prefix) {
    Names found;
    for (const ParameterSpec& spec : parameter_specs(architecture)) {
      if (spec.name.starts_with(prefix)) found.push_back(spec.name.substr(prefix.size()));
    }
    return found;
  };
  const Architecture t5 = tiny_t5(true);
  EXPECT_THAT(names(t5, "encoder.block.0."),
              ElementsAre("layer.0.layer_norm.weight", "layer.0.SelfAttention.q.weight",
                          "layer.0.SelfAttention.k.weight", "layer.0.SelfAttention.v.weight",
                          "layer.0.SelfAttention.o.weight", "layer.0.SelfAttention.relative_attention_bias.weight",
                          "layer.1.layer_norm.weight", "layer.1.DenseReluDense.wi_0.weight",
                          "layer.1.DenseReluDense.wi_1.weight", "layer.1.DenseReluDense.wo.weight"));
  EXPECT_EQ(names(t5, "encoder.block.1.").size(), 9u) << "the first layer's positions are those of all";
  EXPECT_THAT(
      names(t5, "decoder.block.0."),
      ElementsAre("layer.0.layer_norm.weight", "layer.0.SelfAttention.q.weight", "layer.0.SelfAttention.k.weight",
                  "layer.0.SelfAttention.v.weight", "layer.0.SelfAttention.o.weight",
                  "layer.0.SelfAttention.relative_attention_bias.weight", "layer.1.layer_norm.weight",
                  "layer.1.EncDecAttention.q.weight", "layer.1.EncDecAttention.k.weight",
                  "layer.1.EncDecAttention.v.weight", "layer.1.EncDecAttention.o.weight", "layer.2.layer_norm.weight",
                  "layer.2.DenseReluDense.wi_0.weight", "layer.2.DenseReluDense.wi_1.weight",
                  "layer.2.DenseReluDense.wo.weight"));
  const std::vector<ParameterSpec> specs = parameter_specs(t5);
  EXPECT_EQ(specs.front().name, "shared.weight");
  EXPECT_THAT(names(t5, "encoder.final"), ElementsAre("_layer_norm.weight"));
  EXPECT_EQ(specs[specs.size() - 2].name, "decoder.final_layer_norm.weight");
  EXPECT_EQ(specs.back().name, "lm_head.weight");
  EXPECT_THAT(names(tiny_t5(false), "encoder.block.1.layer.1.DenseReluDense."), ElementsAre("wi.weight", "wo.weight"));
  EXPECT_THAT(names(tiny_t5(false), "decoder.block.0.layer.2.DenseReluDense."), ElementsAre("wi.weight", "wo.weight"));

  constexpr int64_t kAttention = 4 * 6 * 8, kFeedForward = 3 * 6 * 10, kBuckets = 8 * 2;
  constexpr int64_t kEncoder = 2 * (kAttention + kFeedForward + 2 * 6) + kBuckets + 6;
  constexpr int64_t kDecoder = 2 * kAttention + kFeedForward + 3 * 6 + kBuckets + 6;
  EXPECT_EQ(parameter_count(t5), kEncoder + kDecoder + 2 * 11 * 6);
  EXPECT_EQ(parameter_count(tiny_t5(false)), parameter_count(t5) - 3 * 6 * 10);
}

TEST_F(ParameterTables, DrawAnEncoderAndItsDecoderAsTransformers) {
  std::map<std::string, double> deviations;
  for (const ParameterSpec& spec : parameter_specs(tiny_t5(true))) deviations[spec.module()] = spec.initial_std;
  const std::string first = "decoder.block.0.layer.0.SelfAttention.", fed = "decoder.block.0.layer.2.DenseReluDense.";
  EXPECT_DOUBLE_EQ(deviations.at("shared"), 3);
  EXPECT_DOUBLE_EQ(deviations.at("lm_head"), 3);
  EXPECT_DOUBLE_EQ(deviations.at(first + "q"), 3 / std::sqrt(6.0 * 4)) << "d_model * d_kv";
  EXPECT_DOUBLE_EQ(deviations.at(first + "k"), 3 / std::sqrt(6.0));
  EXPECT_DOUBLE_EQ(deviations.at(first + "v"), 3 / std::sqrt(6.0));
  EXPECT_DOUBLE_EQ(deviations.at(first + "o"), 3 / std::sqrt(8.0));
  EXPECT_DOUBLE_EQ(deviations.at(first + "relative_attention_bias"), 3 / std::sqrt(6.0));
  EXPECT_DOUBLE_EQ(deviations.at(fed + "wi_1"), 3 / std::sqrt(6.0));
  EXPECT_DOUBLE_EQ(deviations.at(fed + "wo"), 3 / std::sqrt(10.0));
}

TEST_F(ParameterTables, MatchTargetsOfAnEncoderAndItsDecoderAsPeft) {
  architecture_ = tiny_t5(true);
  EXPECT_THAT(adapted({}),
              ElementsAre("encoder.block.0.layer.0.SelfAttention.q", "encoder.block.0.layer.0.SelfAttention.v",
                          "encoder.block.1.layer.0.SelfAttention.q", "encoder.block.1.layer.0.SelfAttention.v",
                          "decoder.block.0.layer.0.SelfAttention.q", "decoder.block.0.layer.0.SelfAttention.v",
                          "decoder.block.0.layer.1.EncDecAttention.q", "decoder.block.0.layer.1.EncDecAttention.v"));
  EXPECT_EQ(adapted({"q", "v"}), adapted({}));
  EXPECT_THAT(adapted({"EncDecAttention.o"}), ElementsAre("decoder.block.0.layer.1.EncDecAttention.o"));
  EXPECT_EQ(adapted({"o"}).size(), 4u) << "wo ends in it, but not behind a dot";
  EXPECT_EQ(adapted({"all-linear"}).size(), 2u * 7 + 11);
  for (const Names& none : {Names{"q_proj"}, {"shared"}, {"lm_head"}, {"relative_attention_bias"}, {"wi"}}) {
    EXPECT_THROW(table(none), UsageError) << none.back();
  }
  try {
    table({"q_proj"});
    FAIL() << "a target that no module has";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("name q, k, v, o, wi_0, wi_1, wo, or all-linear alone"));
  }
  size_t norms = 0;
  for (const ParameterRow& row : table({}, {"layer_norm"}).rows) norms += row.trained && row.of_base();
  EXPECT_EQ(norms, 2u * 2 + 3 + 2) << "those behind the stacks too";
}

TEST_F(ParameterTables, DecayMatricesButNotRelativePositions) {
  architecture_ = tiny_t5(true);
  int without = 0;
  for (const ParameterRow& row : resolve({}, architecture_).parameters.rows) {
    const bool relative = row.spec.role == Role::kRelativeBias;
    EXPECT_EQ(relative, row.spec.name.ends_with("relative_attention_bias.weight"));
    EXPECT_EQ(row.decays(), row.spec.is_matrix() && !relative) << row.spec.name;
    EXPECT_EQ(row.spec.layer >= 0, row.spec.name.find(".block.") != std::string::npos && !relative) << row.spec.name;
    without += relative;
  }
  EXPECT_EQ(without, 2) << "one for each stack";
}

}  // namespace
}  // namespace fathom::arch
