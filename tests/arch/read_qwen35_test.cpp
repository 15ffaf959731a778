// The config.json of Qwen3.5's text models, and what a layer keeps while it generates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "arch/architecture.h"
#include "arch/parameter_table.h"
#include "base/error.h"
#include "base/json_value.h"
#include "tests/arch/attending.h"

namespace fathom::arch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Architecture read_qwen35(const Json& more) {
  Json config = {{"architectures", {"Qwen3_5ForCausalLM"}},
                 {"model_type", "qwen3_5_text"},
                 {"vocab_size", 100},
                 {"hidden_size", 32},
                 {"intermediate_size", 50},
                 {"num_hidden_layers", 5},
                 {"num_attention_heads", 8}};
  config.update(more);
  return parse_architecture(config, "config.json");
}

TEST(ReadQwen35, SaysWhichLayersAttend) {
  EXPECT_THAT(attending(read_qwen35(Json::object())), ElementsAre(false, false, false, true, false));
  EXPECT_THAT(attending(read_qwen35({{"full_attention_interval", 2}})), ElementsAre(false, true, false, true, false));
  const Json types = {"full_attention", "linear_attention", "linear_attention", "full_attention", "linear_attention"};
  EXPECT_THAT(attending(read_qwen35({{"layer_types", types}, {"full_attention_interval", 1}})),
              ElementsAre(true, false, false, true, false));
}

TEST(ReadQwen35, TakesTransformersDefaults) {
  const Architecture qwen = read_qwen35(Json::object());
  EXPECT_EQ(qwen.layers[0].mixer, Mixer(GatedDelta{16, 32, 128, 128, 4}));
  EXPECT_EQ(qwen.attention().head_dim, 256);
  EXPECT_EQ(qwen.attention().key_value_heads, 4);
  EXPECT_EQ(qwen.attention().rotary, (Rotary{.width = 64, .theta = 10000}));
  EXPECT_TRUE(qwen.attention().output_gate);
  EXPECT_EQ(qwen.attention().query_key_norm, QueryKeyNorm::kEachHead);
  EXPECT_EQ(qwen.norm_offset, 1);
  EXPECT_FALSE(qwen.tie_word_embeddings);
  const Json rope = {{"rope_type", "default"}, {"rope_theta", 1e7}, {"mrope_section", {11, 11, 10}}};
  EXPECT_EQ(read_qwen35({{"rope_parameters", rope}}).attention().rotary, (Rotary{.width = 64, .theta = 1e7}));
}

const Json kSmall = {{"linear_num_key_heads", 2},
                     {"linear_num_value_heads", 6},
                     {"linear_key_head_dim", 8},
                     {"linear_value_head_dim", 5},
                     {"linear_conv_kernel_dim", 3}};

TEST(ReadQwen35, HasTheNamesAndShapesOfTransformers) {
  std::vector<std::string> of_rule, of_attention;
  for (const ParameterSpec& spec : parameter_specs(read_qwen35(kSmall))) {
    std::string line = spec.name;
    for (const int64_t size : spec.shape) line += " " + std::to_string(size);
    if (spec.layer == 0) of_rule.push_back(line.substr(std::string("model.layers.0.").size()));
    if (spec.layer == 3) of_attention.push_back(line.substr(std::string("model.layers.3.").size()));
  }
  EXPECT_THAT(of_rule,
              ElementsAre("input_layernorm.weight 32", "linear_attn.in_proj_qkv.weight 62 32",
                          "linear_attn.in_proj_z.weight 30 32", "linear_attn.in_proj_b.weight 6 32",
                          "linear_attn.in_proj_a.weight 6 32", "linear_attn.conv1d.weight 62 3", "linear_attn.A_log 6",
                          "linear_attn.dt_bias 6", "linear_attn.norm.weight 5", "linear_attn.out_proj.weight 32 30",
                          "post_attention_layernorm.weight 32", "mlp.gate_proj.weight 50 32",
                          "mlp.up_proj.weight 50 32", "mlp.down_proj.weight 32 50"));
  EXPECT_EQ(of_attention[1], "self_attn.q_proj.weight 4096 32");
}

// Over a base in 16 bits as well.
TEST(ReadQwen35, KeepsInFp32WhatDecaysByIt) {
  ParameterSettings settings;
  settings.dtype = DType::kBF16;
  std::vector<std::string> wide;
  for (const ParameterRow& row : parameter_table(read_qwen35(kSmall), settings).rows) {
    if (row.dtype == DType::kF32 && row.spec.layer == 0) wide.push_back(row.spec.name);
    if (row.spec.role == Role::kDecayRate) {
      EXPECT_FALSE(row.decays());
    }
    if (row.spec.role == Role::kConvolution) {
      EXPECT_TRUE(row.decays());
    }
  }
  EXPECT_THAT(wide, ElementsAre("model.layers.0.linear_attn.A_log", "model.layers.0.linear_attn.dt_bias",
                                "model.layers.0.linear_attn.norm.weight"));
}

TEST(ReadQwen35, RefusesByKey) {
  const auto refused = [](const char* text) { return ThrowsMessage<Error>(HasSubstr(text)); };
  EXPECT_THAT(
      [] {
        read_qwen35({{"linear_num_value_heads", 24}});
      },
      refused("linear_num_value_heads: 24 is no multiple of 16, the linear_num_key_heads"));
  EXPECT_THAT(
      [] {
        read_qwen35({{"num_hidden_layers", 3}});
      },
      refused("full_attention_interval: expected a layer that attends"));
  EXPECT_THAT(
      [] {
        read_qwen35({{"layer_types", Json(std::vector<std::string>(5, "linear_attention"))}});
      },
      refused("layer_types: expected a layer that attends"));
  EXPECT_THAT(
      [] {
        read_qwen35({{"layer_types", Json(std::vector<std::string>(5, "mamba2"))}});
      },
      refused("layer_types: \"mamba2\" is not supported"));
  EXPECT_THAT([] { read_qwen35({{"attn_output_gate", false}}); }, refused("attn_output_gate: only true is supported"));
  EXPECT_THAT(
      [] {
        read_qwen35({{"mamba_ssm_dtype", "bfloat16"}});
      },
      refused("mamba_ssm_dtype: \"bfloat16\" is not supported"));
  EXPECT_THAT(
      [] {
        read_qwen35({{"output_gate_type", "sigmoid"}});
      },
      refused("output_gate_type: \"sigmoid\" is not supported (only swish)"));
  EXPECT_THAT([] { read_qwen35({{"linear_key_head_dim", 0}}); }, refused("linear_key_head_dim"));
  static const Json kMost = int64_t{1} << 31;
  EXPECT_THAT(
      [] {
        read_qwen35(
            {{"linear_num_key_heads", kMost}, {"linear_num_value_heads", kMost}, {"linear_key_head_dim", kMost}});
      },
      refused("in_proj_qkv"));
  EXPECT_THAT([] { read_qwen35({{"num_attention_heads", kMost}, {"head_dim", kMost}}); }, refused("q_proj"));
}

TEST(ReadQwen35, KeepsStatesWhileItGenerates) {
  const Architecture qwen = read_qwen35(kSmall);
  EXPECT_THAT(kept_while_generating(qwen, qwen.layers[0], 7, 70),
              ElementsAre(KeptTensor{{7, 2, 62}}, KeptTensor{{7, 6, 8, 5}, /*in_fp32=*/true}));
}

}  // namespace
}  // namespace fathom::arch
