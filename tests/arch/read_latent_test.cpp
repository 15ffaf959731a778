// The keys of narrow rows of which heads are made: DeepSeek-V3's, GLM-4.7-Flash's, Mistral Small 4's.
#include "arch/read_latent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "arch/architecture.h"
#include "base/json_value.h"
#include "tests/arch/refusal_of_config.h"

namespace fathom::arch {
namespace {

using ::testing::HasSubstr;

Json config_of(const char* name, const char* type, const Json& more) {
  Json config = {{"architectures", {name}}, {"model_type", type},     {"vocab_size", 100},       {"hidden_size", 48},
                 {"intermediate_size", 20}, {"num_hidden_layers", 4}, {"num_attention_heads", 6}};
  config.update(more);
  return config;
}
Json deepseek(const Json& more = Json::object()) { return config_of("DeepseekV3ForCausalLM", "deepseek_v3", more); }
Json flash(const Json& more = Json::object()) { return config_of("Glm4MoeLiteForCausalLM", "glm4_moe_lite", more); }
Json mistral(const Json& more = Json::object()) { return config_of("Mistral4ForCausalLM", "mistral4", more); }
Architecture read(const Json& config) { return parse_architecture(config, "config.json"); }

TEST(ReadLatent, TakesTransformersDefaults) {
  const Architecture silent = read(deepseek());
  const Attention& attention = silent.attention();
  EXPECT_EQ(*attention.latent, (LatentHeads{.query_rank = 1536, .rank = 512, .turned = 64, .value_dim = 128}));
  EXPECT_EQ(attention.head_dim, 192);
  EXPECT_EQ(attention.key_value_heads, 6);
  EXPECT_EQ(*attention.rotary, (Rotary{.width = 192, .still_front = 128, .interleaved = true}));
  Experts expected = {.count = 256, .per_token = 8, .normalised = true, .shared_width = 2048, .shared_gated = false};
  expected.scores = {.sigmoid = true, .corrected = true, .groups = 8, .open_groups = 4, .scale = 2.5};
  EXPECT_EQ(*silent.experts(), expected);
  EXPECT_FALSE(silent.layers[2].feed_forward.experts);
  EXPECT_TRUE(silent.layers[3].feed_forward.experts);

  const Architecture of_flash = read(flash());
  EXPECT_EQ(*of_flash.attention().latent,
            (LatentHeads{.query_rank = 768, .rank = 512, .turned = 64, .value_dim = 256}));
  EXPECT_EQ(of_flash.norm_eps, 1e-5);
  EXPECT_EQ(of_flash.attention().latent->norm_eps, 1e-6) << "whatever rms_norm_eps says";
  EXPECT_FALSE(of_flash.layers[0].feed_forward.experts);
  EXPECT_EQ(of_flash.layers[1].feed_forward.experts->scores.scale, 1.8);

  const Architecture of_mistral = read(mistral());
  EXPECT_EQ(*of_mistral.attention().latent,
            (LatentHeads{.query_rank = 1024, .rank = 256, .turned = 64, .value_dim = 128}));
  EXPECT_EQ(of_mistral.layers[0].feed_forward.experts->scores, RouterScores());
  const Rotary& rotary = *of_mistral.attention().rotary;
  EXPECT_EQ(std::get<YarnRope>(rotary.scaling).factor, 128);
  EXPECT_EQ(rotary.theta, 10000) << "whatever rope_theta says beside";
  EXPECT_EQ(rotary.query_growth, 0.1);
  EXPECT_EQ(rotary.query_growth_positions, 8192);
  EXPECT_NEAR(rotary.query_scale, std::pow(0.1 * std::log(128) + 1, 2), 1e-12);
}

TEST(ReadLatent, OfNoRankMakesQueriesOfTheStream) {
  EXPECT_EQ(read(deepseek({{"q_lora_rank", nullptr}})).attention().latent->query_rank, 0);
  std::vector<std::string> names;
  for (const ParameterSpec& spec : parameter_specs(read(deepseek({{"q_lora_rank", nullptr}})))) {
    if (spec.layer == 0 && spec.role == Role::kProjection) names.push_back(spec.module().substr(15));
  }
  names.resize(4);
  EXPECT_THAT(names, ::testing::ElementsAre("self_attn.q_proj", "self_attn.kv_a_proj_with_mqa", "self_attn.kv_b_proj",
                                            "self_attn.o_proj"));
}

// YaRN's correction of attention is that of whole heads where mscale_all_dim says so, and not twice.
TEST(ReadLatent, CorrectsScoresOfStretchedPositions) {
  Json rope = {{"type", "yarn"}, {"factor", 40}, {"original_max_position_embeddings", 4096}};
  EXPECT_EQ(read(deepseek({{"rope_scaling", rope}})).attention().rotary->query_scale, 1);
  rope.update({{"mscale", 1.0}, {"mscale_all_dim", 1.0}});
  const Rotary rotary = *read(deepseek({{"rope_scaling", rope}})).attention().rotary;
  EXPECT_NEAR(rotary.query_scale, std::pow(0.1 * std::log(40) + 1, 2), 1e-12);
  EXPECT_EQ(rotary.magnitude, 1);
  Json plain = rope;
  for (const char* key : {"mscale", "mscale_all_dim"}) plain.erase(key);
  EXPECT_THAT(refusal_of_config(deepseek({{"rope_parameters", rope}, {"rope_scaling", plain}})),
              HasSubstr("rope_scaling: differs from rope_parameters"));
}

TEST(ReadLatent, TellsNullFromSilenceWhereWeightsAreDivided) {
  EXPECT_TRUE(read(deepseek()).experts()->normalised);
  EXPECT_FALSE(read(deepseek({{"norm_topk_prob", nullptr}})).experts()->normalised);
}

TEST(ReadLatent, TakesLayersWithExpertsByTheirTypes) {
  const Architecture model = read(flash({{"mlp_layer_types", {"sparse", "dense", "dense", "sparse"}}}));
  std::string types;
  for (const LayerSpec& layer : model.layers) types += layer.feed_forward.experts ? 's' : 'd';
  EXPECT_EQ(types, "sdds");
  EXPECT_TRUE(read(deepseek({{"mlp_layer_types", Json::array({"dense", "dense", "dense", "dense"})}})).experts())
      << "a key of GLM-4.7-Flash alone";
  EXPECT_EQ(read(flash({{"first_k_dense_replace", 1}})).layers, read(flash()).layers);
  EXPECT_THAT(refusal_of_config(flash({{"first_k_dense_replace", 2}})),
              HasSubstr("first_k_dense_replace: is not read by transformers"));
  EXPECT_THAT(refusal_of_config(flash({{"mlp_layer_types", {"sparse"}}})), HasSubstr("mlp_layer_types: expected"));
  EXPECT_THAT(refusal_of_config(flash({{"mlp_layer_types", {"sparse", "dense", "moe", "dense"}}})),
              HasSubstr("mlp_layer_types: expected \"dense\" or \"sparse\", got \"moe\""));
}

TEST(ReadLatent, RefusesWhatItCannotCompute) {
  EXPECT_THAT(refusal_of_config(deepseek({{"num_key_value_heads", 3}})), HasSubstr("num_key_value_heads: expected 6"));
  EXPECT_THAT(refusal_of_config(deepseek({{"head_dim", 192}})), HasSubstr("head_dim: expected 64"));
  EXPECT_THAT(refusal_of_config(mistral({{"head_dim", 64}})), HasSubstr("head_dim: expected 128"));
  EXPECT_THAT(refusal_of_config(mistral({{"rope_theta", 500}})), HasSubstr("rope_theta: differs from"));
  for (const Json& none : {Json(false), Json(nullptr)}) {
    EXPECT_THAT(refusal_of_config(deepseek({{"rope_interleave", none}})), HasSubstr("rope_interleave: only true"));
  }
  EXPECT_THAT(refusal_of_config(deepseek({{"qk_rope_head_dim", 3}})), HasSubstr("qk_rope_head_dim: expected an even"));
  EXPECT_THAT(refusal_of_config(deepseek({{"qk_nope_head_dim", 3}})), HasSubstr("qk_nope_head_dim: expected an even"));
  EXPECT_THAT(refusal_of_config(deepseek({{"v_head_dim", 193}})), HasSubstr("v_head_dim: is more than the 192"));
  EXPECT_THAT(refusal_of_config(deepseek({{"kv_lora_rank", 0}})), HasSubstr("kv_lora_rank"));
  EXPECT_THAT(refusal_of_config(deepseek({{"scoring_func", "softmax"}})), HasSubstr("scoring_func: "));
  EXPECT_THAT(refusal_of_config(mistral({{"scoring_func", "sigmoid"}})), HasSubstr("scoring_func: "));
  Json half = {{"rope_type", "yarn"}, {"factor", 8.0}, {"partial_rotary_factor", 0.5}};
  EXPECT_EQ(read(mistral({{"rope_parameters", half}})).attention().rotary->width, 128) << "64 of them are turned";
  half["partial_rotary_factor"] = 0.25;
  EXPECT_THAT(refusal_of_config(mistral({{"rope_parameters", half}})), HasSubstr("partial_rotary_factor: only 1"));
}

}  // namespace
}  // namespace fathom::arch
