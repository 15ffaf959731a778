// What config.json says of experts: defaults, layers without them, and what is refused.
#include "arch/read_experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json_value.h"
#include "tests/arch/refusal_of_config.h"

namespace fathom::arch {
namespace {

using ::testing::HasSubstr;

Json config_of(const char* name, const char* type) {
  return {{"architectures", {name}},  {"model_type", type},       {"vocab_size", 50},
          {"hidden_size", 16},        {"intermediate_size", 24},  {"num_hidden_layers", 4},
          {"num_attention_heads", 2}, {"num_key_value_heads", 1}, {"head_dim", 8}};
}
Json qwen3_moe() { return config_of("Qwen3MoeForCausalLM", "qwen3_moe"); }
Json mixtral() { return config_of("MixtralForCausalLM", "mixtral"); }
Json olmoe() { return config_of("OlmoeForCausalLM", "olmoe"); }

Architecture read_experts(const Json& config) { return parse_architecture(config, "config.json"); }

TEST(ReadExperts, TakesTransformersDefaults) {
  EXPECT_EQ(*read_experts(qwen3_moe()).experts(), (Experts{128, 8, false}));
  EXPECT_EQ(read_experts(qwen3_moe()).layers.front().feed_forward.width, 768);
  EXPECT_EQ(*read_experts(mixtral()).experts(), (Experts{8, 2, true, ExpertFiles::kMixtral}));
  EXPECT_EQ(read_experts(mixtral()).layers.front().feed_forward.width, 24);
  EXPECT_EQ(read_experts(mixtral()).sliding_window(), 0);
  EXPECT_EQ(*read_experts(olmoe()).experts(), (Experts{64, 8, false}));
  EXPECT_EQ(*read_experts(config_of("GraniteMoeForCausalLM", "granitemoe")).experts(),
            (Experts{8, 2, true, ExpertFiles::kStacked, /*named_by_modules=*/false}));
  EXPECT_EQ(*read_experts(config_of("Qwen2MoeForCausalLM", "qwen2_moe")).experts(),
            (Experts{.count = 60, .per_token = 4, .named_by_modules = false, .shared_width = 5632}));
  const Architecture qwen35 = read_experts(config_of("Qwen3_5MoeForCausalLM", "qwen3_5_moe_text"));
  EXPECT_EQ(*qwen35.experts(), (Experts{.count = 256,
                                        .per_token = 8,
                                        .normalised = true,
                                        .files = ExpertFiles::kWhole,
                                        .named_by_modules = false,
                                        .shared_width = 512}));
  const Architecture next = read_experts(config_of("Qwen3NextForCausalLM", "qwen3_next"));
  EXPECT_EQ(*next.experts(), (Experts{.count = 512, .per_token = 10, .normalised = true, .shared_width = 512}));
  EXPECT_EQ(qwen35.layers.front().feed_forward.width, 512);
  EXPECT_EQ(read_experts(config_of("LlamaForCausalLM", "llama")).experts(), nullptr);
}

TEST(ReadExperts, TakesEitherNameOfTheirNumber) {
  for (const char* key : {"num_experts", "num_local_experts"}) {
    Json config = olmoe();
    config[key] = 9;
    EXPECT_EQ(read_experts(config).experts()->count, 9) << key;
  }
  Json both = olmoe();
  both["num_experts"] = 9;
  both["num_local_experts"] = 10;
  EXPECT_THAT(refusal_of_config(both), HasSubstr("num_experts: differs from num_local_experts"));
}

TEST(ReadExperts, KnowsWhichLayersHaveNone) {
  Json config = qwen3_moe();
  config["decoder_sparse_step"] = 2;
  config["mlp_only_layers"] = {3};
  std::vector<bool> have;
  for (const LayerSpec& layer : read_experts(config).layers) have.push_back(layer.feed_forward.experts.has_value());
  EXPECT_EQ(have, (std::vector<bool>{false, true, false, false}));
  EXPECT_EQ(read_experts(config).layers[0].feed_forward.width, 24);
  EXPECT_EQ(read_experts(config).layers[1].feed_forward.width, 768);
}

TEST(ReadExperts, AddsToTheLossWhereRouterLogitsArePutOut) {
  Json config = mixtral();
  EXPECT_EQ(read_experts(config).router_aux_loss_coef, 0);
  config["output_router_logits"] = true;
  EXPECT_EQ(read_experts(config).router_aux_loss_coef, 0.001);
  config["router_aux_loss_coef"] = 0.02;
  EXPECT_EQ(read_experts(config).router_aux_loss_coef, 0.02);
}

Json glm4_moe() { return config_of("Glm4MoeForCausalLM", "glm4_moe"); }

TEST(ReadExperts, OfGlmHaveCorrectedSigmoidsAndAPartBesideThem) {
  const Architecture silent = read_experts(glm4_moe());
  Experts expected = {.count = 128, .per_token = 8, .normalised = true, .shared_width = 1408, .shared_gated = false};
  expected.scores = {.sigmoid = true, .corrected = true};
  EXPECT_EQ(*silent.experts(), expected);
  EXPECT_FALSE(silent.layers[0].feed_forward.experts);
  EXPECT_EQ(silent.layers[0].feed_forward.width, 24);
  EXPECT_EQ(silent.layers[1].feed_forward.width, 1408);
  EXPECT_EQ(silent.attention().query_key_norm, QueryKeyNorm::kNone);
  EXPECT_EQ(silent.attention().rotary->width, 4);
  Json config = glm4_moe();
  config.update({{"n_routed_experts", 12},
                 {"n_shared_experts", 3},
                 {"moe_intermediate_size", 5},
                 {"n_group", 4},
                 {"topk_group", 3},
                 {"routed_scaling_factor", 2.5},
                 {"norm_topk_prob", false},
                 {"first_k_dense_replace", 0},
                 {"use_qk_norm", true},
                 {"scoring_func", "sigmoid"},
                 {"topk_method", "noaux_tc"},
                 {"output_router_logits", true}});
  const Architecture said = read_experts(config);
  expected.count = 12;
  expected.normalised = false;
  expected.shared_width = 15;
  expected.scores = {.sigmoid = true, .corrected = true, .groups = 4, .open_groups = 3, .scale = 2.5};
  EXPECT_EQ(*said.layers.front().feed_forward.experts, expected);
  EXPECT_EQ(said.attention().query_key_norm, QueryKeyNorm::kEachHead);
  EXPECT_EQ(said.router_aux_loss_coef, 0) << "corrections balance them";
}

TEST(ReadExperts, OfGlmRefuseGroupsThatCannotBe) {
  const auto refusal = [](const Json& keys) {
    Json config = glm4_moe();
    config.update(keys);
    return refusal_of_config(config);
  };
  EXPECT_THAT(refusal({{"n_group", 3}}), HasSubstr("n_group: does not divide the number of experts"));
  EXPECT_THAT(refusal({{"n_group", 2}, {"topk_group", 3}}), HasSubstr("topk_group: is more than n_group"));
  EXPECT_THAT(refusal({{"n_group", 128}, {"topk_group", 9}}), HasSubstr("n_group: a group needs two experts"));
  EXPECT_THAT(refusal({{"n_group", 32}}), HasSubstr("num_experts_per_tok: is more than the experts of topk_group"));
  EXPECT_THAT(refusal({{"first_k_dense_replace", -1}}), HasSubstr("first_k_dense_replace: expected 0 or more"));
  EXPECT_THAT(refusal({{"scoring_func", "softmax"}}), HasSubstr("scoring_func: "));
  EXPECT_THAT(refusal({{"shared_expert_intermediate_size", 7}}), HasSubstr("shared_expert_intermediate_size: "));
}

TEST(ReadExperts, RefusesOtherRoutersByName) {
  for (const auto& [key, value] : std::vector<std::pair<const char*, Json>>{{"scoring_func", "sigmoid"},
                                                                            {"topk_method", "noaux_tc"},
                                                                            {"n_group", 8},
                                                                            {"n_shared_experts", 1},
                                                                            {"shared_expert_intermediate_size", 64},
                                                                            {"router_jitter_noise", 0.1},
                                                                            {"clip_qkv", 8.0}}) {
    Json config = qwen3_moe();
    config[key] = value;
    EXPECT_THAT(refusal_of_config(config), HasSubstr(std::string("config.json: ") + key + ": ")) << key;
  }
  EXPECT_THAT(refusal_of_config({{"architectures", {"DeepseekV2ForCausalLM"}}, {"model_type", "deepseek_v2"}}),
              HasSubstr("architectures: "));
}

TEST(ReadExperts, RefusesWhatCannotBe) {
  Json config = qwen3_moe();
  config["num_experts"] = 3;
  config["num_experts_per_tok"] = 4;
  EXPECT_THAT(refusal_of_config(config), HasSubstr("num_experts_per_tok: 4 is more than the 3 experts that there are"));
  Json dense = config_of("LlamaForCausalLM", "llama");
  dense["num_local_experts"] = 4;
  EXPECT_THAT(refusal_of_config(dense), HasSubstr("num_local_experts: not supported: 4"));
  Json quantized = mixtral();
  quantized["quantization_config"] = {{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}};
  EXPECT_THAT(refusal_of_config(quantized),
              HasSubstr("quantization_config: MixtralForCausalLM has experts, and is read in floating point alone"));
}

}  // namespace
}  // namespace fathom::arch
