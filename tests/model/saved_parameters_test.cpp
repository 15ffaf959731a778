// Which parameters modules_to_save names, as PEFT matches them.
#include "model/saved_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace fathom::model {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class SavedParameters : public testing::Test {
 protected:
  SavedParameters() {
    shape_.vocab_size = 11;
    shape_.hidden_size = 6;
    shape_.intermediate_size = 10;
    shape_.num_hidden_layers = 1;
    shape_.num_attention_heads = shape_.num_key_value_heads = 2;
    shape_.head_dim = 4;
    shape_.query_key_value_bias = shape_.query_key_norm = true;
  }
  std::set<std::string> saved(const std::vector<std::string>& modules) const {
    return saved_parameters(shape_, modules, {"q_proj"});
  }
  std::string refusal(const std::vector<std::string>& modules) const {
    try {
      saved(modules);
      return "taken";
    } catch (const UsageError& error) {
      return error.what();
    }
  }
  ModelShape shape_;
};

TEST_F(SavedParameters, AreThoseOfModulesWhoseNamesEndSo) {
  EXPECT_TRUE(saved({}).empty());
  EXPECT_THAT(saved({"lm_head", "embed_tokens"}), ElementsAre("lm_head.weight", "model.embed_tokens.weight"));
  EXPECT_THAT(saved({"norm"}),
              ElementsAre("model.layers.0.input_layernorm.weight", "model.layers.0.post_attention_layernorm.weight",
                          "model.layers.0.self_attn.k_norm.weight", "model.layers.0.self_attn.q_norm.weight",
                          "model.norm.weight"));
  EXPECT_THAT(saved({"model.norm"}), ElementsAre("model.norm.weight"));
  EXPECT_THAT(saved({"k_proj"}),
              ElementsAre("model.layers.0.self_attn.k_proj.bias", "model.layers.0.self_attn.k_proj.weight"));
}

TEST_F(SavedParameters, TakeATiedHeadForTheEmbedding) {
  shape_.tie_word_embeddings = true;
  for (const char* name : {"lm_head", "embed_tokens"}) {
    EXPECT_THAT(saved({name}), ElementsAre("model.embed_tokens.weight")) << name;
  }
}

TEST_F(SavedParameters, RefuseWhatMatchesNothingOrAnAdapter) {
  EXPECT_THAT(refusal({"norm", "wte"}), AllOf(HasSubstr("'wte' matches no module"), HasSubstr("embed_tokens")));
  EXPECT_THAT(refusal({"mlp"}), HasSubstr("'mlp' matches no module with weights of its own"));
  EXPECT_THAT(refusal({"_proj"}), HasSubstr("model.layers.0.self_attn.q_proj, which gets an adapter"));
}

TEST_F(SavedParameters, OfFullTrainingAreAll) {
  config::RunConfig run;
  EXPECT_EQ(trained_base(shape_, run).size(), parameter_specs(shape_).size());
  EXPECT_EQ(trained_base_count(shape_, run), parameter_count(shape_));
  run.method = config::Method::kLora;
  EXPECT_EQ(trained_base_count(shape_, run), 0);
  run.modules_to_save = {"lm_head"};
  EXPECT_EQ(trained_base_count(shape_, run), 11 * 6);
}

}  // namespace
}  // namespace fathom::model
