// Which rows the table has, and which of them are trained, adapted or in codes.
#include "arch/parameter_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace fathom::arch {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Names = std::vector<std::string>;

class ParameterTables : public testing::Test {
 protected:
  ParameterTables() {
    architecture_.vocab_size = 11;
    architecture_.hidden_size = 6;
    architecture_.layers.assign(1, {.attention = {.heads = 2,
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
      if (row.adapted) names.push_back(row.spec.module());
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
  architecture_.layers.front().attention.query_key_norm = QueryKeyNorm::kNone;
  EXPECT_THAT(refusal({"q_norm"}), HasSubstr("; name embed_tokens, input_layernorm, post_attention_layernorm, norm ("));
  EXPECT_THAT(refusal({"_proj"}), HasSubstr("model.layers.0.self_attn.q_proj, which gets an adapter"));
}

TEST_F(ParameterTables, OfFullTrainingTrainTheBase) {
  config::RunConfig run;
  EXPECT_EQ(parameter_table(architecture_, run).rows.size(), parameter_specs(architecture_).size());
  EXPECT_EQ(parameter_table(architecture_, run).trained_base_count(), parameter_count(architecture_));
  EXPECT_EQ(parameter_table(architecture_, run).adapter_count(), 0);
  run.method = config::Method::kLora;
  EXPECT_EQ(parameter_table(architecture_, run).trained_base_count(), 0);
  run.modules_to_save = {"lm_head"};
  EXPECT_EQ(parameter_table(architecture_, run).trained_base_count(), 11 * 6);
  EXPECT_TRUE(parameter_table(architecture_, run).trains_head());
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

}  // namespace
}  // namespace fathom::arch
