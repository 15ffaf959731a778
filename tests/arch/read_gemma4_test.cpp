// The config.json of Gemma 4's text models, and the parameters of their two kinds of layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "arch/architecture.h"
#include "arch/parameter_table.h"
#include "arch/rotary_frequencies.h"
#include "base/error.h"
#include "base/json_value.h"

namespace fathom::arch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Architecture read_gemma4(const Json& more) {
  Json config = {{"architectures", {"Gemma4ForCausalLM"}},
                 {"model_type", "gemma4_text"},
                 {"vocab_size", 100},
                 {"hidden_size", 32},
                 {"intermediate_size", 50},
                 {"num_hidden_layers", 7},
                 {"num_attention_heads", 8},
                 {"hidden_size_per_layer_input", 0}};
  config.update(more);
  return parse_architecture(config, "config.json");
}

std::vector<int64_t> windows(const Architecture& gemma) {
  std::vector<int64_t> found;
  for (const LayerSpec& layer : gemma.layers) found.push_back(layer.attention().window);
  return found;
}

TEST(ReadGemma4, LetsTheLastLayerSeeEverything) {
  EXPECT_THAT(windows(read_gemma4(Json::object())), ElementsAre(512, 512, 512, 512, 512, 0, 0));
  const std::string full = "full_attention", sliding = "sliding_attention";
  const Json types = {sliding, full, sliding, sliding, sliding, sliding, sliding};
  EXPECT_THAT(windows(read_gemma4({{"layer_types", types}, {"sliding_window", 9}})), ElementsAre(9, 0, 9, 9, 9, 9, 0));
}

TEST(ReadGemma4, TakesTransformersDefaults) {
  const Architecture gemma = read_gemma4(Json::object());
  const Attention &windowed = gemma.layers.front().attention(), &full = gemma.layers.back().attention();
  EXPECT_THAT(gemma.head_dims(), ElementsAre(256, 512));
  EXPECT_EQ(windowed.key_value_heads, 4);
  EXPECT_EQ(full.key_value_heads, 4);
  EXPECT_FALSE(windowed.keys_are_values || full.keys_are_values);
  EXPECT_TRUE(windowed.value_norm && full.value_norm && gemma.layers.front().scalar);
  EXPECT_EQ(windowed.rotary, (Rotary{.width = 256, .theta = 10000, .query_scale = 16}));
  EXPECT_EQ(full.rotary, (Rotary{.width = 512, .still_pairs = 192, .theta = 1e6, .query_scale = std::sqrt(512.0)}));
  EXPECT_EQ(gemma.norm_offset, 0);
  EXPECT_EQ(gemma.head_softcap, 0);
  EXPECT_TRUE(gemma.tie_word_embeddings);
  EXPECT_EQ(read_gemma4({{"final_logit_softcapping", 30.0}}).head_softcap, 30);
}

// The spellings of transformers 5.5 and 5.24.
TEST(ReadGemma4, ReadsHeadsOfFullLayersInEitherSpelling) {
  const Json keys = {
      {"attention_k_eq_v", true}, {"head_dim", 16}, {"global_head_dim", 24}, {"num_global_key_value_heads", 2}};
  const Json each = {{"head_dim", 24}, {"num_key_value_heads", 2}};
  const Json by_layer = {
      {"attention_k_eq_v", true}, {"head_dim", 16}, {"per_layer_config", {{"5", each}, {"6", each}}}};
  const Architecture gemma = read_gemma4(keys);
  EXPECT_EQ(gemma, read_gemma4(by_layer));
  EXPECT_EQ(gemma.layers.back().attention().head_dim, 24);
  EXPECT_EQ(gemma.layers.back().attention().key_value_heads, 2);
  EXPECT_EQ(gemma.layers.front().attention().key_value_heads, 4);
}

// As transformers saves them: numbers as wide as the largest, without what is as in other layers; beside them it takes
// no key of layers that see everything.
TEST(ReadGemma4, ReadsWhatLayersHaveOfTheirOwn) {
  const Json heads = {{"num_key_value_heads", 2}}, none = Json::object();
  const Json sizes = {{"num_hidden_layers", 12}, {"head_dim", 16}, {"global_head_dim", 40}};
  Json wide = sizes, same = sizes;
  wide["per_layer_config"] = {{"05", heads}, {"11", heads}};
  same["per_layer_config"] = {{"05", none}};
  same["num_global_key_value_heads"] = 1;
  EXPECT_EQ(read_gemma4(wide).layers[5].attention().key_value_heads, 2);
  EXPECT_EQ(read_gemma4(wide).layers[5].attention().head_dim, 16);
  EXPECT_EQ(read_gemma4(same).layers[11].attention().key_value_heads, 4);
  EXPECT_EQ(read_gemma4(same).layers[11].attention().head_dim, 16);
}

TEST(ReadGemma4, HasTheNamesAndShapesOfTransformers) {
  std::vector<std::string> windowed, full;
  for (const ParameterSpec& spec : parameter_specs(read_gemma4({{"attention_k_eq_v", true},
                                                                {"head_dim", 16},
                                                                {"global_head_dim", 24},
                                                                {"num_global_key_value_heads", 2}}))) {
    std::string line = spec.name;
    for (const int64_t size : spec.shape) line += " " + std::to_string(size);
    if (spec.layer == 0) windowed.push_back(line.substr(std::string("model.layers.0.").size()));
    if (spec.layer == 6) full.push_back(line.substr(std::string("model.layers.6.").size()));
  }
  EXPECT_THAT(
      windowed,
      ElementsAre("input_layernorm.weight 32", "self_attn.q_proj.weight 128 32", "self_attn.q_norm.weight 16",
                  "self_attn.k_proj.weight 64 32", "self_attn.k_norm.weight 16", "self_attn.v_proj.weight 64 32",
                  "self_attn.o_proj.weight 32 128", "post_attention_layernorm.weight 32",
                  "pre_feedforward_layernorm.weight 32", "mlp.gate_proj.weight 50 32", "mlp.up_proj.weight 50 32",
                  "mlp.down_proj.weight 32 50", "post_feedforward_layernorm.weight 32", "layer_scalar 1"));
  EXPECT_THAT(
      full, ElementsAre("input_layernorm.weight 32", "self_attn.q_proj.weight 192 32", "self_attn.q_norm.weight 24",
                        "self_attn.k_proj.weight 48 32", "self_attn.k_norm.weight 24", "self_attn.o_proj.weight 32 192",
                        "post_attention_layernorm.weight 32", "pre_feedforward_layernorm.weight 32",
                        "mlp.gate_proj.weight 50 32", "mlp.up_proj.weight 50 32", "mlp.down_proj.weight 32 50",
                        "post_feedforward_layernorm.weight 32", "layer_scalar 1"));
}

TEST(ReadGemma4, TrainsNoScalarOfALayer) {
  std::vector<std::string> frozen;
  for (const ParameterRow& row : parameter_table(read_gemma4({{"num_hidden_layers", 1}}), {}).rows) {
    if (!row.trained) frozen.push_back(row.spec.name);
  }
  EXPECT_THAT(frozen, ElementsAre("model.layers.0.layer_scalar"));
}

TEST(ReadGemma4, TurnsAShareOfThePairsByFrequenciesOfAll) {
  const Rotary rotary = *read_gemma4({{"global_head_dim", 16}}).layers.back().attention().rotary;
  const std::vector<float> frequencies = rotary_frequencies(rotary, false);
  EXPECT_THAT(frequencies, ElementsAre(1, ::testing::FloatNear(std::pow(1e6F, -2.0F / 16), 1e-7F), 0, 0, 0, 0, 0, 0));
}

TEST(ReadGemma4, RefusesByKey) {
  const auto refuses = [](const Json& more, const char* text) {
    EXPECT_THAT([&] { read_gemma4(more); }, ThrowsMessage<Error>(HasSubstr(text))) << more;
  };
  refuses({{"hidden_size_per_layer_input", 256}}, "hidden_size_per_layer_input: embeddings for each layer");
  refuses({{"num_kv_shared_layers", 2}}, "num_kv_shared_layers: layers that share keys and values");
  refuses({{"enable_moe_block", true}}, "enable_moe_block: experts beside an MLP are not supported");
  refuses({{"use_bidirectional_attention", "all"}}, "use_bidirectional_attention: only null and \"vision\"");
  refuses({{"global_head_dim", 7}}, "global_head_dim: rotary positions need an even size of heads");
  refuses({{"attention_k_eq_v", true}, {"num_global_key_value_heads", 3}},
          "num_global_key_value_heads: does not divide num_attention_heads");
  refuses({{"layer_types", Json(std::vector<std::string>(7, "linear_attention"))}}, "layer_types");
  const Json each = {{"head_dim", 24}};
  refuses({{"per_layer_config", {{"5", each}}}}, "per_layer_config: expected the same head_dim");
  refuses({{"per_layer_config", {{"5", each}, {"05", each}}}}, "per_layer_config: expected keys and values of layers");
  refuses({{"per_layer_config", {{"7", each}}}}, "per_layer_config: expected keys and values of layers from 0 to 6");
  refuses({{"per_layer_config", {{"0", each}, {"5", each}, {"6", each}}}}, "per_layer_config: expected the same");
  refuses({{"per_layer_config", {{"5", each}, {"6", {{"head_dim", 20}}}}}}, "per_layer_config: expected the same");
  const Json other = {{"sliding_window", 3}};
  refuses({{"per_layer_config", {{"5", other}, {"6", other}}}}, "per_layer_config.sliding_window: is not supported");
  const Json positions = {{"rope_type", "proportional"}, {"partial_rotary_factor", 1.5}};
  refuses({{"rope_parameters", {{"full_attention", positions}}}}, "rope_parameters: expected those of");
  const Json usual = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
  refuses({{"rope_parameters", {{"full_attention", positions}, {"sliding_attention", usual}}}},
          "partial_rotary_factor: expected 1 at most");
}

TEST(ReadGemma4, TakesTextThatSeesOnlyPicturesBothWays) {
  EXPECT_EQ(read_gemma4({{"use_bidirectional_attention", "vision"}}), read_gemma4(Json::object()));
}

}  // namespace
}  // namespace fathom::arch
