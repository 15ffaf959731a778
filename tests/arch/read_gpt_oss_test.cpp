// The config.json of gpt-oss: what it says and what it is silent about, its names and shapes, and MXFP4.
#include "arch/read_gpt_oss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "arch/architecture.h"
#include "arch/run.h"
#include "arch/stored_parts.h"
#include "base/error.h"
#include "base/json_value.h"
#include "tests/arch/refusal_of_config.h"

namespace fathom::arch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json gpt_oss(const Json& more = Json::object()) {
  Json config = {{"architectures", {"GptOssForCausalLM"}},
                 {"model_type", "gpt_oss"},
                 {"vocab_size", 100},
                 {"hidden_size", 64},
                 {"intermediate_size", 32},
                 {"num_hidden_layers", 3},
                 {"num_attention_heads", 16},
                 {"num_local_experts", 6}};
  config.update(more);
  return config;
}
Architecture read_gpt_oss(const Json& more = Json::object()) {
  return parse_architecture(gpt_oss(more), "config.json");
}

TEST(ReadGptOss, TakesTransformersDefaults) {
  const Architecture model = read_gpt_oss();
  EXPECT_EQ(*model.experts(), (Experts{6, 4, true, ExpertFiles::kTurned, /*named_by_modules=*/false, /*biased=*/true,
                                       ClampedGate{1.702, 7}}));
  EXPECT_EQ(parse_architecture(
                [] {
                  Json config = gpt_oss();
                  config.erase("num_local_experts");
                  return config;
                }(),
                "config.json")
                .experts()
                ->count,
            128);
  const Attention& attention = model.attention();
  EXPECT_EQ(attention.head_dim, 64);
  EXPECT_EQ(attention.key_value_heads, 8);
  EXPECT_TRUE(attention.sinks && attention.input_bias && attention.output_bias);
  std::vector<int64_t> windows;
  for (const LayerSpec& layer : model.layers) windows.push_back(layer.attention().window);
  EXPECT_THAT(windows, ElementsAre(128, 0, 128));
  const Rotary stretched = {.width = 64,
                            .theta = 150000,
                            .scaling = YarnRope{32, 32, 1, 4096, /*whole_pairs=*/false},
                            .magnitude = 0.1 * std::log(32.0) + 1};
  EXPECT_EQ(attention.rotary, stretched);
  EXPECT_EQ(model.layers[1].attention().rotary, stretched);
  EXPECT_EQ(model.norm_eps, 1e-5);
  EXPECT_EQ(model.router_aux_loss_coef, 0) << "output_router_logits is false";
  EXPECT_FALSE(model.tie_word_embeddings);
  EXPECT_EQ(model.dtype, DType::kF32);
}

// As OpenAI's folders have them, in the spelling of transformers 4.
TEST(ReadGptOss, ReadsItsKeys) {
  const Json rope = {{"beta_fast", 32.0},   {"beta_slow", 1.0},
                     {"factor", 32.0},      {"original_max_position_embeddings", 4096},
                     {"rope_type", "yarn"}, {"truncate", false}};
  const Architecture model = read_gpt_oss({{"rope_theta", 150000},
                                           {"rope_scaling", rope},
                                           {"experts_per_token", 2},
                                           {"num_experts_per_tok", 2},
                                           {"layer_types", {"full_attention", "sliding_attention", "full_attention"}},
                                           {"sliding_window", 16},
                                           {"attention_bias", false},
                                           {"swiglu_limit", 5.0},
                                           {"swiglu_alpha", 1.5},
                                           {"router_aux_loss_coef", 0.9},
                                           {"output_router_logits", true}});
  EXPECT_EQ(model.attention().rotary, read_gpt_oss().attention().rotary);
  EXPECT_EQ(model.experts()->per_token, 2);
  EXPECT_EQ(model.experts()->clamped, (ClampedGate{1.5, 5}));
  EXPECT_EQ(model.layers[0].attention().window, 0);
  EXPECT_EQ(model.layers[1].attention().window, 16);
  EXPECT_FALSE(model.attention().input_bias || model.attention().output_bias);
  EXPECT_EQ(model.router_aux_loss_coef, 0.9);
  EXPECT_EQ(read_gpt_oss({{"experts_per_token", 3}}).experts()->per_token, 3);
  const Json plain = {{"rope_type", "default"}, {"rope_theta", 500.0}};
  EXPECT_EQ(read_gpt_oss({{"rope_parameters", plain}}).attention().rotary, (Rotary{.width = 64, .theta = 500}));
}

TEST(ReadGptOss, HasTheNamesAndShapesOfTransformers) {
  std::vector<std::string> lines;
  const Architecture model = read_gpt_oss({{"num_key_value_heads", 2}, {"head_dim", 8}});
  for (const ParameterSpec& spec : parameter_specs(model)) {
    if (spec.layer != 1) continue;
    const StoredPart part = stored_parts(model, spec).front();
    std::string line = part.name.substr(std::string("model.layers.1.").size());
    for (const int64_t size : part.shape) line += " " + std::to_string(size);
    lines.push_back(line);
    EXPECT_EQ(stored_parts(model, spec).size(), 1u);
    EXPECT_EQ(part.transposed, spec.role == Role::kExperts) << spec.name;
  }
  EXPECT_THAT(lines,
              ElementsAre("input_layernorm.weight 64", "self_attn.q_proj.weight 128 64", "self_attn.q_proj.bias 128",
                          "self_attn.k_proj.weight 16 64", "self_attn.k_proj.bias 16", "self_attn.v_proj.weight 16 64",
                          "self_attn.v_proj.bias 16", "self_attn.sinks 16", "self_attn.o_proj.weight 64 128",
                          "self_attn.o_proj.bias 64", "post_attention_layernorm.weight 64", "mlp.router.weight 6 64",
                          "mlp.router.bias 6", "mlp.experts.gate_up_proj 6 64 64", "mlp.experts.gate_up_proj_bias 6 64",
                          "mlp.experts.down_proj 6 32 64", "mlp.experts.down_proj_bias 6 64"));
}

TEST(ReadGptOss, DecaysMatricesAlone) {
  for (const ParameterRow& row : parameter_table(read_gpt_oss(), {}).rows) {
    const bool matrix = row.spec.name.ends_with(".weight") && row.spec.role != Role::kNorm;
    EXPECT_EQ(row.decays(), matrix || row.spec.role == Role::kExperts) << row.spec.name;
  }
}

TEST(ReadGptOss, AdaptsAttentionByNamesAndExpertsByParameters) {
  const auto adapted = [](const LoraOptions& lora) {
    std::vector<std::string> names;
    for (const ParameterRow& row : parameter_table(read_gpt_oss(), {.lora = lora}).rows) {
      if (row.adapted() && row.spec.layer == 0)
        names.push_back(row.adapter.substr(std::string("model.layers.0.").size()));
    }
    return names;
  };
  EXPECT_THAT(adapted({}), ElementsAre("self_attn.q_proj", "self_attn.v_proj"));
  EXPECT_THAT(adapted({.target_modules = {"all-linear"}}),
              ElementsAre("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"));
  EXPECT_THAT(adapted({.target_parameters = {"experts.gate_up_proj", "experts.down_proj", "router.weight"}}),
              ElementsAre("mlp.router", "mlp.experts.base_layer", "mlp.experts"));
  for (const char* module : {"router", "experts", "sinks", "self_attn"}) {
    EXPECT_THROW(adapted({.modules_to_save = {module}}), UsageError) << module;
  }
}

TEST(ReadGptOss, RefusesByKey) {
  EXPECT_THAT(refusal_of_config(gpt_oss({{"experts_per_token", 3}, {"num_experts_per_tok", 2}})),
              HasSubstr("experts_per_token: 3 is not what num_experts_per_tok says"));
  EXPECT_THAT(refusal_of_config(gpt_oss({{"num_experts_per_tok", 7}})), HasSubstr("num_experts_per_tok: 7 is more"));
  EXPECT_THAT(refusal_of_config(gpt_oss({{"swiglu_limit", 0}})), HasSubstr("swiglu_limit: expected more than 0"));
  EXPECT_THAT(refusal_of_config(gpt_oss({{"swiglu_limit", -1}})), HasSubstr("swiglu_limit"));
  EXPECT_THAT(refusal_of_config(gpt_oss({{"swiglu_alpha", "much"}})), HasSubstr("swiglu_alpha"));
  EXPECT_THAT(refusal_of_config(gpt_oss({{"attention_dropout", 0.1}})), HasSubstr("attention_dropout"));
  EXPECT_THAT(refusal_of_config(gpt_oss({{"hidden_act", "gelu"}})), HasSubstr("hidden_act"));
  EXPECT_THAT(refusal_of_config(gpt_oss({{"n_shared_experts", 1}})), HasSubstr("n_shared_experts"));
}

const Json kMxfp4 = {{"quant_method", "mxfp4"},
                     {"modules_to_not_convert",
                      {"model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"}}};

TEST(ReadGptOss, HasExpertsAloneInMxfp4) {
  const Architecture model = read_gpt_oss({{"quantization_config", kMxfp4}});
  EXPECT_EQ(model.quantized->scheme, quant::Scheme::kMxfp4);
  EXPECT_EQ(model.dtype, DType::kBF16) << "of the rest, where config.json is silent";
  EXPECT_EQ(read_gpt_oss({{"quantization_config", kMxfp4}, {"dtype", "float32"}}).dtype, DType::kF32);
  config::RunConfig config;
  config.method = config::Method::kLora;
  const arch::Run run = resolve(config, model);
  for (const ParameterRow& row : run.parameters.rows) {
    const bool expert = row.spec.role == Role::kExperts;
    EXPECT_EQ(row.codes.has_value(), expert) << row.spec.name;
    // 4 bits, and 8 for each 32 numbers.
    if (expert) {
      EXPECT_EQ(row.code_bytes() * 32, row.spec.elements() * 17);
    }
  }
  refuse_training_codes(run);
  config.modules_to_save = {"q_proj"};
  config.target_modules = {"v_proj"};
  refuse_training_codes(resolve(config, model));  // which is in no codes
}

std::string refusal_to_train(const config::RunConfig& config) {
  try {
    refuse_training_codes(resolve(config, read_gpt_oss({{"quantization_config", kMxfp4}})));
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(ReadGptOss, DoesNotTrainCodes) {
  EXPECT_THAT(refusal_to_train({}), HasSubstr("the model's folder stores its experts in MXFP4"));
  config::RunConfig config;
  config.method = config::Method::kLora;
  config.load_in_4bit = true;
  EXPECT_THAT(refusal_to_train(config), HasSubstr("remove load_in_4bit"));
}

TEST(ReadGptOss, RefusesCodesOfOtherKinds) {
  const auto refusal = [](const Json& quantization, const Json& more = Json::object()) {
    Json config = gpt_oss(more);
    config["quantization_config"] = quantization;
    return refusal_of_config(config);
  };
  EXPECT_THAT(refusal({{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}}), HasSubstr("has experts"));
  EXPECT_THAT(refusal({{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}}),
              HasSubstr("has matrices that folders store transposed"));
  EXPECT_THAT(refusal(kMxfp4, {{"hidden_size", 80}}),
              HasSubstr("blocks of 32 numbers, which do not divide rows of 80"));
  EXPECT_THAT(refusal({{"quant_method", "mxfp4"}, {"modules_to_not_convert", {"model.layers.0.mlp.experts"}}}),
              HasSubstr("modules_to_not_convert: \"model.layers.0.mlp.experts\" is left out"));
  Json llama = gpt_oss({{"quantization_config", kMxfp4}, {"num_local_experts", nullptr}});
  llama.update({{"architectures", {"LlamaForCausalLM"}}, {"model_type", "llama"}});
  EXPECT_THAT(refusal_of_config(llama), HasSubstr("mxfp4 is known of gpt-oss's experts alone"));
}

}  // namespace
}  // namespace fathom::arch
