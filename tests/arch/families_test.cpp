// The families that config.json may be of: their defaults, what they read, what they refuse.
#include "arch/families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/json_value.h"

namespace fathom::arch {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Of the first layer.
const Rotary& rotary_of(const Architecture& architecture) { return *architecture.layers.front().attention().rotary; }

// What config.json of another family says at least.
Json of_family(const char* type) {
  return parse_json(std::string(R"({"hidden_size": 128, "intermediate_size": 100, "num_attention_heads": 32,
      "num_hidden_layers": 30, "vocab_size": 10, "model_type": ")") +
                        type + "\"}",
                    "config.json");
}

Architecture architecture_with(Json config, const char* key, const char* value) {
  config[key] = parse_json(value, "value");
  return parse_architecture(config, "config.json");
}

std::vector<int64_t> windows_of(const Architecture& architecture) {
  std::vector<int64_t> windows;
  for (const LayerSpec& layer : architecture.layers) windows.push_back(layer.attention().window);
  return windows;
}

TEST(Families, HaveTheDefaultsOfTransformers) {
  const Architecture llama = parse_architecture(of_family("llama"), "config.json");
  EXPECT_EQ(llama.family, "LlamaForCausalLM");
  EXPECT_EQ(llama.layers.front().attention().key_value_heads, 32);
  EXPECT_EQ(llama.max_position_embeddings, 2048);
  EXPECT_EQ(llama.bos_token_id, 1);
  EXPECT_THAT(llama.eos_token_ids, ElementsAre(2));
  EXPECT_FALSE(llama.layers.front().has_bias());
  EXPECT_EQ(llama.layers.front().attention().query_key_norm, QueryKeyNorm::kNone);

  const Architecture mistral = parse_architecture(of_family("mistral"), "config.json");
  EXPECT_EQ(mistral.family, "MistralForCausalLM");
  EXPECT_EQ(mistral.layers.front().attention().key_value_heads, 8);
  EXPECT_EQ(mistral.max_position_embeddings, 131072);
  EXPECT_THAT(windows_of(mistral), Each(4096));
  EXPECT_THAT(mistral.eos_token_ids, ElementsAre(2));

  const Architecture qwen2 = parse_architecture(of_family("qwen2"), "config.json");
  EXPECT_EQ(qwen2.family, "Qwen2ForCausalLM");
  EXPECT_TRUE(qwen2.layers.front().attention().input_bias);
  EXPECT_FALSE(qwen2.layers.front().attention().output_bias || qwen2.layers.front().feed_forward.bias);
  EXPECT_EQ(qwen2.layers.front().attention().query_key_norm, QueryKeyNorm::kNone);
  EXPECT_EQ(qwen2.head_dim(), 4);
  EXPECT_THAT(windows_of(qwen2), Each(0));
  EXPECT_THAT(qwen2.eos_token_ids, ::testing::IsEmpty());

  const Architecture qwen3 = parse_architecture(of_family("qwen3"), "config.json");
  EXPECT_EQ(qwen3.family, "Qwen3ForCausalLM");
  EXPECT_FALSE(qwen3.layers.front().has_bias());
  EXPECT_EQ(qwen3.layers.front().attention().query_key_norm, QueryKeyNorm::kEachHead);
  EXPECT_EQ(qwen3.head_dim(), 128);

  const Architecture olmo2 = parse_architecture(of_family("olmo2"), "config.json");
  EXPECT_EQ(olmo2.family, "Olmo2ForCausalLM");
  EXPECT_FALSE(olmo2.layers.front().has_bias());
  EXPECT_EQ(olmo2.layers.front().attention().query_key_norm, QueryKeyNorm::kAllHeads);
  EXPECT_EQ(olmo2.layers.front().norms, NormPlacement::kAfter);
  EXPECT_EQ(olmo2.layers.front().attention().key_value_heads, 32);
  EXPECT_EQ(olmo2.norm_eps, 1e-5);
  for (const Architecture& each : {llama, mistral, qwen2, qwen3}) {
    EXPECT_EQ(each.layers.front().norms, NormPlacement::kBefore);
    EXPECT_EQ(each.norm_eps, 1e-6);
    EXPECT_EQ(rotary_of(each), (Rotary{.width = each.head_dim()}));
  }
}

TEST(Families, WithNormsBehindTheirBranchesNameThemSo) {
  const Architecture olmo2 = parse_architecture(of_family("olmo2"), "config.json");
  std::vector<std::string> of_first_layer;
  for (const ParameterSpec& spec : parameter_specs(olmo2)) {
    if (spec.layer == 0 && spec.role == Role::kNorm) of_first_layer.push_back(spec.name.substr(15));
    if (spec.name.ends_with("q_norm.weight")) {
      EXPECT_THAT(spec.shape, ElementsAre(128));
    }
  }
  EXPECT_THAT(of_first_layer, ElementsAre("self_attn.q_norm.weight", "self_attn.k_norm.weight",
                                          "post_attention_layernorm.weight", "post_feedforward_layernorm.weight"));
}

TEST(Families, TellAnAbsentKeyFromNull) {
  EXPECT_EQ(
      architecture_with(of_family("mistral"), "num_key_value_heads", "null").layers.front().attention().key_value_heads,
      32);
  EXPECT_THAT(windows_of(architecture_with(of_family("mistral"), "sliding_window", "null")), Each(0));
  EXPECT_THAT(architecture_with(of_family("llama"), "eos_token_id", "null").eos_token_ids, ::testing::IsEmpty());
}

TEST(Families, HaveBiasesAsTheirKeysSay) {
  Json llama = of_family("llama");
  llama["attention_bias"] = llama["mlp_bias"] = true;
  const Architecture all = parse_architecture(llama, "config.json");
  EXPECT_TRUE(all.layers.front().attention().input_bias && all.layers.front().attention().output_bias &&
              all.layers.front().feed_forward.bias);
  const Architecture qwen3 = architecture_with(of_family("qwen3"), "attention_bias", "true");
  EXPECT_TRUE(qwen3.layers.front().attention().input_bias && qwen3.layers.front().attention().output_bias);
  // Not keys of these: transformers ignores them.
  EXPECT_FALSE(architecture_with(of_family("mistral"), "attention_bias", "true").layers.front().has_bias());
  EXPECT_FALSE(architecture_with(of_family("qwen3"), "mlp_bias", "true").layers.front().has_bias());
}

TEST(Families, HaveBiasesByKeysOfTheirOwn) {
  const LayerSpec seed = parse_architecture(of_family("seed_oss"), "config.json").layers.front();
  EXPECT_TRUE(seed.attention().input_bias && !seed.attention().output_bias && !seed.feed_forward.bias);
  const LayerSpec other = architecture_with(of_family("seed_oss"), "attention_out_bias", "true").layers.front();
  EXPECT_TRUE(other.attention().input_bias && other.attention().output_bias && !other.feed_forward.bias);
  EXPECT_FALSE(architecture_with(of_family("seed_oss"), "attention_bias", "false").layers.front().has_bias());
  EXPECT_FALSE(parse_architecture(of_family("ernie4_5"), "config.json").layers.front().has_bias());
  const LayerSpec ernie = architecture_with(of_family("ernie4_5"), "use_bias", "true").layers.front();
  EXPECT_TRUE(ernie.attention().input_bias && ernie.attention().output_bias && ernie.feed_forward.bias);
}

TEST(Families, HaveDropoutByTheirKeysWhereTheyAreSilentToo) {
  const Architecture seed = parse_architecture(of_family("seed_oss"), "config.json");
  EXPECT_EQ(seed.dropout, 0.1);
  EXPECT_EQ(seed.embedding_dropout, 0)
      << "transformers drops nothing of embeddings, nor of a feed-forward part's width";
  EXPECT_EQ(seed.inner_dropout, 0);
  Json none = of_family("seed_oss");
  none["attention_dropout"] = none["residual_dropout"] = 0;
  EXPECT_EQ(parse_architecture(none, "config.json").dropout, 0);
}

TEST(Families, ChooseWindowedLayersAsTransformers) {
  Json qwen = of_family("qwen2");
  qwen["sliding_window"] = 512;
  EXPECT_THAT(windows_of(parse_architecture(qwen, "config.json")), Each(0)) << "use_sliding_window is false by default";
  qwen["use_sliding_window"] = true;
  const Architecture upper = parse_architecture(qwen, "config.json");  // max_window_layers: 28 of 30
  EXPECT_EQ(upper.sliding_window(), 512);
  EXPECT_EQ(upper.layers.at(27).attention().window, 0);
  EXPECT_EQ(upper.layers.at(28).attention().window, 512);
  EXPECT_THAT(windows_of(architecture_with(qwen, "max_window_layers", "30")), Each(0)) << "no layer is left";
  EXPECT_THAT(windows_of(architecture_with(qwen, "max_window_layers", "0")), Each(512));
  EXPECT_THAT(windows_of(architecture_with(qwen, "sliding_window", "null")), Each(0));

  Json chosen = qwen;
  chosen["num_hidden_layers"] = 3;
  const char* types = R"(["sliding_attention", "full_attention", "sliding_attention"])";
  EXPECT_THAT(windows_of(architecture_with(chosen, "layer_types", types)), ElementsAre(512, 0, 512));
  chosen["use_sliding_window"] = false;
  EXPECT_THROW(architecture_with(chosen, "layer_types", types), Error) << "a window that is not there";
  Json mistral = of_family("mistral");
  mistral["num_hidden_layers"] = 1;
  EXPECT_THAT(windows_of(architecture_with(mistral, "layer_types", R"(["sliding_attention"])")), ElementsAre(4096));
  EXPECT_THROW(architecture_with(mistral, "layer_types", R"(["full_attention"])"), Error);
}

TEST(Families, NameWindowedLayersAsTransformers) {
  Json ministral = of_family("ministral");
  ministral["num_hidden_layers"] = 3;
  EXPECT_THAT(windows_of(parse_architecture(ministral, "config.json")), Each(4096));
  EXPECT_THAT(windows_of(architecture_with(ministral, "sliding_window", "null")), Each(0));
  const char* types = R"(["sliding_attention", "full_attention", "full_attention"])";
  EXPECT_THAT(windows_of(architecture_with(ministral, "layer_types", types)), ElementsAre(4096, 0, 0));
  ministral["sliding_window"] = nullptr;
  EXPECT_THROW(architecture_with(ministral, "layer_types", types), Error) << "a window that is not there";

  Json cwm = of_family("cwm");
  cwm["num_hidden_layers"] = 6;
  const Architecture silent = parse_architecture(cwm, "config.json");
  EXPECT_THAT(windows_of(silent), ElementsAre(0, 8192, 8192, 8192, 0, 8192));
  EXPECT_EQ(rotary_of(silent), (Rotary{.width = 128, .theta = 1e6, .scaling = Llama3Rope{16, 1, 4, 8192}}));
  EXPECT_THAT(silent.eos_token_ids, ::testing::IsEmpty()) << "beyond this vocabulary";
  EXPECT_THAT(architecture_with(cwm, "vocab_size", "128256").eos_token_ids, ElementsAre(128001, 128008, 128009));
  const Architecture plain = architecture_with(cwm, "rope_parameters", R"({"rope_type": "default"})");
  EXPECT_EQ(rotary_of(plain), (Rotary{.width = 128, .theta = 1e6}));
}

TEST(Families, ReadStretchedPositionsInBothSpellings) {
  constexpr const char* kLlama3 =
      R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192, "rope_theta": 500000.0})";
  const RopeScaling expected = Llama3Rope{8, 1, 4, 8192};
  const Architecture newer = architecture_with(of_family("llama"), "rope_parameters", kLlama3);
  EXPECT_EQ(rotary_of(newer).scaling, expected);
  EXPECT_EQ(rotary_of(newer).theta, 500000);
  Json old = of_family("llama");
  old["rope_theta"] = 500000.0;
  old["rope_scaling"] = parse_json(kLlama3, "rope");
  old["rope_scaling"].erase("rope_theta");
  EXPECT_EQ(rotary_of(parse_architecture(old, "config.json")).scaling, expected);
  EXPECT_EQ(rotary_of(parse_architecture(old, "config.json")).theta, 500000);
  old["rope_scaling"]["type"] = old["rope_scaling"]["rope_type"];
  old["rope_scaling"].erase("rope_type");
  EXPECT_EQ(rotary_of(parse_architecture(old, "config.json")).scaling, expected) << "the oldest spelling of the type";
  // Without a number of its own, the model's; a number beside the table comes first.
  old["rope_scaling"].erase("original_max_position_embeddings");
  EXPECT_EQ(rotary_of(parse_architecture(old, "config.json")).scaling, (RopeScaling(Llama3Rope{8, 1, 4, 2048})));
  EXPECT_EQ(rotary_of(architecture_with(old, "original_max_position_embeddings", "77")).scaling,
            (RopeScaling(Llama3Rope{8, 1, 4, 77})));
}

TEST(Families, NameBiasesAndNormsAsHuggingFace) {
  const auto names = [](Json config) {
    config["num_hidden_layers"] = 1;
    std::vector<std::string> result;
    for (const ParameterSpec& spec : parameter_specs(parse_architecture(config, "config.json"))) {
      if (spec.name.starts_with("model.layers.0.self_attn.")) result.push_back(spec.name.substr(25));
    }
    return result;
  };
  EXPECT_THAT(names(of_family("qwen2")), ElementsAre("q_proj.weight", "q_proj.bias", "k_proj.weight", "k_proj.bias",
                                                     "v_proj.weight", "v_proj.bias", "o_proj.weight"));
  EXPECT_THAT(names(of_family("qwen3")), ElementsAre("q_proj.weight", "q_norm.weight", "k_proj.weight", "k_norm.weight",
                                                     "v_proj.weight", "o_proj.weight"));
  Json qwen3 = of_family("qwen3");
  qwen3["num_hidden_layers"] = 1;
  for (const ParameterSpec& spec : parameter_specs(parse_architecture(qwen3, "config.json"))) {
    if (!spec.name.ends_with("_norm.weight")) continue;
    EXPECT_THAT(spec.shape, ElementsAre(128)) << spec.name;
    EXPECT_FALSE(spec.is_matrix());
  }
}

Json of_family_with(const char* type, const char* more) {
  Json config = of_family(type);
  config.update(parse_json(more, "more"));
  return config;
}

Architecture read(const char* type, const char* more) {
  return parse_architecture(of_family_with(type, more), "config.json");
}

std::vector<int64_t> turned_widths(const Architecture& architecture) {
  std::vector<int64_t> widths;
  for (const LayerSpec& layer : architecture.layers) {
    widths.push_back(layer.attention().rotary ? layer.attention().rotary->width : 0);
  }
  return widths;
}

TEST(Families, LeaveLayersUnturnedWhereTheySay) {
  EXPECT_THAT(turned_widths(read("smollm3", R"({"num_hidden_layers": 5})")), ElementsAre(4, 4, 4, 0, 4));
  const char* every_second = R"({"num_hidden_layers": 3, "no_rope_layer_interval": 2})";
  EXPECT_THAT(turned_widths(read("smollm3", every_second)), ElementsAre(4, 0, 4));
  const char* listed = R"({"num_hidden_layers": 3, "no_rope_layers": [0, 0, 1, 1]})";
  EXPECT_THAT(turned_widths(read("smollm3", listed)), ElementsAre(0, 0, 4));
  EXPECT_TRUE(read("smollm3", "{}").tie_word_embeddings);
  EXPECT_FALSE(read("smollm3", R"({"tie_word_embeddings": false})").tie_word_embeddings);
}

// Layers with a window turn heads by positions of their own, in both spellings.
TEST(Families, TurnLayersWithWindowsAloneWhereTheyHaveSome) {
  const Architecture exaone = read("exaone4", R"({"num_hidden_layers": 5, "sliding_window_pattern": 3})");
  EXPECT_THAT(windows_of(exaone), ElementsAre(4096, 4096, 0, 4096, 4096));
  EXPECT_THAT(turned_widths(exaone), ElementsAre(4, 4, 0, 4, 4));
  const char* listed = R"({"num_hidden_layers": 2, "sliding_window_pattern": "LLLG", "sliding_window": 7,
                           "layer_types": ["full_attention", "sliding_attention"]})";
  EXPECT_THAT(windows_of(read("exaone4", listed)), ElementsAre(0, 7)) << "the pattern is not read beside layer_types";
  EXPECT_THAT(turned_widths(read("exaone4", listed)), ElementsAre(0, 4));
  const Architecture full = read("exaone4", R"({"sliding_window": null, "sliding_window_pattern": null})");
  EXPECT_THAT(windows_of(full), Each(0));
  EXPECT_THAT(turned_widths(full), Each(4));
}

TEST(Families, HavePositionsByTypeOfLayer) {
  const char* old = R"({"num_hidden_layers": 6, "sliding_window": 9, "rope_theta": 3000, "rope_local_base_freq": 70,
                        "rope_scaling": {"rope_type": "linear", "factor": 8}})";
  const char* newer = R"({"num_hidden_layers": 6, "sliding_window": 9, "rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 3000},
      "sliding_attention": {"rope_type": "default", "rope_theta": 70}}})";
  const Architecture gemma = read("gemma3_text", old);
  EXPECT_EQ(gemma, read("gemma3_text", newer));
  EXPECT_THAT(windows_of(gemma), ElementsAre(9, 9, 9, 9, 9, 0));
  EXPECT_EQ(rotary_of(gemma), (Rotary{.width = 256, .theta = 70}));
  EXPECT_EQ(gemma.layers.back().attention().rotary, (Rotary{.width = 256, .theta = 3000, .scaling = LinearRope{8}}));
  EXPECT_EQ(gemma.rotaries().size(), 2u);
  EXPECT_THAT(windows_of(read("gemma3_text", R"({"num_hidden_layers": 4, "sliding_window_pattern": 2})")),
              ElementsAre(4096, 0, 4096, 0));
  EXPECT_THAT(windows_of(read("olmo3", R"({"num_hidden_layers": 5})")), ElementsAre(4096, 4096, 4096, 0, 4096));
  EXPECT_THAT(windows_of(read("cohere2", R"({"num_hidden_layers": 3, "sliding_window_pattern": 2})")),
              ElementsAre(4096, 0, 4096));
  for (const char* family : {"gemma2", "olmo3", "cwm"}) {  // whose classes in transformers have no such key
    EXPECT_EQ(read(family, R"({"num_hidden_layers": 6, "sliding_window_pattern": 3})"),
              read(family, R"({"num_hidden_layers": 6})"))
        << family;
  }
}

TEST(Families, ScaleAsTheirKeysSay) {
  const Architecture granite = read("granite", R"({"attention_multiplier": 0.25, "embedding_multiplier": 12,
                                                   "residual_multiplier": 0.2, "logits_scaling": 8})");
  EXPECT_EQ(granite.embedding_scale, 12);
  EXPECT_EQ(granite.head_scale, 0.125);
  EXPECT_EQ(granite.layers.back().added_scale, 0.2);
  EXPECT_EQ(rotary_of(granite).query_scale, 0.5) << "0.25 instead of 1 / sqrt(4)";
  const Architecture gemma = read("gemma3_text", R"({"head_dim": 16, "query_pre_attn_scalar": 64})");
  EXPECT_EQ(gemma.embedding_scale, std::sqrt(128.0));
  EXPECT_EQ(gemma.norm_offset, 1);
  EXPECT_EQ(gemma.layers.front().feed_forward.activation, Activation::kGelu);
  EXPECT_EQ(rotary_of(gemma).query_scale, 0.5);
  EXPECT_EQ(rotary_of(read("gemma3_text", "{}")).query_scale, 1);
  const Rotary growing = rotary_of(read("ministral3", "{}"));
  EXPECT_EQ(growing.query_growth, 0.1);
  EXPECT_EQ(growing.query_growth_positions, 16384);
}

TEST(Families, CapScoresAndLogits) {
  const Architecture gemma = read("gemma2", R"({"num_hidden_layers": 3, "attn_logit_softcapping": null})");
  EXPECT_EQ(gemma.layers.front().attention().softcap, 0);
  EXPECT_EQ(gemma.head_softcap, 30);
  EXPECT_EQ(gemma.layers.front().norms, NormPlacement::kBoth);
  EXPECT_EQ(gemma.norm_offset, 1);
  EXPECT_EQ(gemma.embedding_scale, std::sqrt(128.0));
  EXPECT_THAT(windows_of(gemma), ElementsAre(4096, 0, 4096));
  EXPECT_EQ(read("gemma2", "{}").layers.back().attention().softcap, 50);
}

TEST(Families, ReadOneNormForBothPartsOfALayer) {
  const Architecture cohere = read("cohere2", R"({"num_hidden_layers": 4, "logit_scale": 0.5})");
  EXPECT_TRUE(cohere.centred_norms && !cohere.biased_norms && cohere.layers.front().parallel);
  EXPECT_EQ(cohere.head_scale, 0.5);
  EXPECT_EQ(read("cohere2", "{}").head_scale, 0.0625);
  EXPECT_EQ(cohere.norm_eps, 1e-5);
  EXPECT_THAT(windows_of(cohere), ElementsAre(4096, 4096, 4096, 0));
  EXPECT_THAT(turned_widths(cohere), ElementsAre(4, 4, 4, 0)) << "layers that see everything are not turned";
  EXPECT_TRUE(rotary_of(cohere).interleaved);
  std::vector<std::string> norms;
  for (const ParameterSpec& spec : parameter_specs(cohere)) {
    if (spec.role == Role::kNorm && spec.layer <= 0) norms.push_back(spec.name);
  }
  EXPECT_THAT(norms, ::testing::UnorderedElementsAre("model.layers.0.input_layernorm.weight", "model.norm.weight"));
}

TEST(Families, DifferFromTheirSuccessorsByAFewSwitches) {
  const Architecture gemma = read("gemma", R"({"hidden_act": "gelu"})");
  EXPECT_EQ(gemma.layers.front().feed_forward.activation, Activation::kGelu) << "by tanh, whatever folders call it";
  EXPECT_EQ(gemma.layers.front().norms, NormPlacement::kBefore);
  EXPECT_EQ(gemma.norm_offset, 1);
  EXPECT_EQ(gemma.embedding_scale, std::sqrt(128.0));
  EXPECT_EQ(gemma.head_dim(), 256);
  const Architecture cohere = read("cohere", "{}");
  EXPECT_TRUE(cohere.centred_norms && cohere.layers.back().parallel);
  EXPECT_EQ(rotary_of(cohere), (Rotary{.width = 4, .interleaved = true, .theta = 500000}));
  EXPECT_EQ(cohere.head_scale, 0.0625);
  const Architecture glm = read("glm", "{}");
  EXPECT_EQ(glm.layers.front().norms, NormPlacement::kBefore);
  EXPECT_TRUE(glm.layers.front().feed_forward.fused && glm.layers.front().attention().input_bias);
  EXPECT_EQ(rotary_of(glm), (Rotary{.width = 64, .interleaved = true}));
  const FeedForward arcee = read("arcee", R"({"hidden_act": "relu2"})").layers.front().feed_forward;
  EXPECT_EQ(arcee.activation, Activation::kSquaredRelu);
  EXPECT_FALSE(arcee.gated);
  EXPECT_EQ(read("ernie4_5", R"({"head_dim": null})").head_dim(), 4) << "where the class has another number";
}

TEST(Families, StretchPositionsByOneAlpha) {
  const Architecture hunyuan = read("hunyuan_v1_dense", R"({"rope_scaling": {"type": "dynamic", "alpha": 1000.0,
                                                           "factor": 1.0}})");
  EXPECT_EQ(rotary_of(hunyuan), (Rotary{.width = 4, .scaling = NtkRope{1000}}));
  EXPECT_TRUE(hunyuan.layers.front().attention().norms_turned);
}

TEST(Families, NameFourNormsOfALayer) {
  const auto names = [](const char* type) {
    std::vector<std::string> of_first_layer;
    for (const ParameterSpec& spec : parameter_specs(read(type, "{}"))) {
      if (spec.layer == 0 && spec.role == Role::kNorm) of_first_layer.push_back(spec.module().substr(15));
    }
    return of_first_layer;
  };
  EXPECT_THAT(names("gemma3_text"),
              ElementsAre("input_layernorm", "self_attn.q_norm", "self_attn.k_norm", "post_attention_layernorm",
                          "pre_feedforward_layernorm", "post_feedforward_layernorm"));
  EXPECT_THAT(names("glm4"), ElementsAre("input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm",
                                         "post_mlp_layernorm"));
}

TEST(Families, FuseProjections) {
  const auto linears = [](const char* type) {
    std::vector<std::string> of_first_layer;
    for (const ParameterSpec& spec : parameter_specs(read(type, R"({"num_key_value_heads": 4})"))) {
      if (spec.layer != 0 || spec.role == Role::kNorm) continue;
      of_first_layer.push_back(spec.name.substr(15) + " " + std::to_string(spec.shape.front()));
    }
    return of_first_layer;
  };
  EXPECT_THAT(linears("phi3"), ElementsAre("self_attn.qkv_proj.weight 160", "self_attn.o_proj.weight 128",
                                           "mlp.gate_up_proj.weight 200", "mlp.down_proj.weight 128"));
  EXPECT_THAT(linears("glm4"),
              ElementsAre("self_attn.q_proj.weight 4096", "self_attn.q_proj.bias 4096", "self_attn.k_proj.weight 512",
                          "self_attn.k_proj.bias 512", "self_attn.v_proj.weight 512", "self_attn.v_proj.bias 512",
                          "self_attn.o_proj.weight 128", "mlp.gate_up_proj.weight 200", "mlp.down_proj.weight 128"));
}

TEST(Families, TurnAPartOfEachHead) {
  EXPECT_EQ(rotary_of(read("glm4", "{}")), (Rotary{.width = 64, .interleaved = true}));
  EXPECT_EQ(rotary_of(read("phi3", R"({"head_dim": 16, "partial_rotary_factor": 0.75})")).width, 12);
  const char* inside =
      R"({"head_dim": 16, "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}})";
  EXPECT_EQ(rotary_of(read("phi3", inside)).width, 4);
  const char* su = R"({"rope_scaling": {"type": "su", "short_factor": [1, 1], "long_factor": [2, 3]},
                       "original_max_position_embeddings": 512})";
  EXPECT_EQ(rotary_of(read("phi3", su)).scaling, (RopeScaling(LongRope{{1, 1}, {2, 3}, 512})));
}

TEST(Families, RefuseByKeyWhatTheyCannotExpress) {
  const struct {
    const char *type, *more, *key;
  } cases[] = {
      {"gemma3_text", R"({"final_logit_softcapping": 30.0})", "final_logit_softcapping"},
      {"gemma3_text", R"({"attn_logit_softcapping": 50.0})", "attn_logit_softcapping"},
      {"gemma3_text", R"({"use_bidirectional_attention": true})", "use_bidirectional_attention"},
      {"gemma3_text", R"({"hidden_activation": "gelu"})", "hidden_activation"},
      {"gemma3_text", R"({"query_pre_attn_scalar": 0})", "query_pre_attn_scalar"},
      {"gemma3_text", R"({"rope_parameters": {"rope_type": "default"}})", "rope_parameters"},
      {"gemma3_text", R"({"rope_parameters": {"full_attention": 7}})", "rope_parameters.full_attention"},
      {"gemma3_text", R"({"rope_parameters": {"full_attention": {"rope_type": "ntk"}}})",
       "rope_parameters.full_attention.rope_type"},
      {"gemma9", "{}", "model_type"},
      {"gemma2", R"({"attn_logit_softcapping": 0})", "attn_logit_softcapping"},
      {"gemma2", R"({"final_logit_softcapping": -3.0})", "final_logit_softcapping"},
      {"cohere2", R"({"logit_scale": 0})", "logit_scale"},
      {"cohere2", R"({"layer_norm_eps": -1})", "layer_norm_eps"},
      {"cohere", R"({"use_qk_norm": true})", "use_qk_norm"},
      {"seed_oss", R"({"residual_dropout": 0.2})", "residual_dropout"},
      {"seed_oss", R"({"attention_dropout": 1, "residual_dropout": 1})", "attention_dropout"},
      {"exaone4", R"({"sliding_window_pattern": "LLLG"})", "sliding_window_pattern"},
      {"arcee", R"({"hidden_act": "silu"})", "hidden_act"},
      {"gemma2", R"({"hidden_act": "gelu"})", "hidden_act"},
      {"hunyuan_v1_dense", R"({"rope_scaling": {"type": "dynamic", "factor": 2}})", "rope_scaling.alpha"},
      {"hunyuan_v1_dense", R"({"head_dim": 2, "rope_scaling": {"type": "dynamic", "alpha": 2}})", "rope_scaling.alpha"},
      {"llama", R"({"rope_scaling": {"type": "dynamic", "alpha": 2}})", "rope_scaling.type"},
      {"granite", R"({"logits_scaling": 0})", "logits_scaling"},
      {"granite", R"({"residual_multiplier": -1})", "residual_multiplier"},
      {"llama", R"({"hidden_activation": "gelu_pytorch_tanh"})", "hidden_activation"},
      {"llama", R"({"rope_scaling": {"rope_type": "yarn", "factor": 0.5}})", "rope_scaling.factor"},
      {"llama", R"({"rope_scaling": {"rope_type": "yarn", "factor": 2, "beta_fast": 1, "beta_slow": 2}})",
       "rope_scaling.beta_fast"},
      {"llama", R"({"rope_scaling": {"rope_type": "yarn", "factor": 2, "truncate": 1}})", "rope_scaling.truncate"},
      {"llama", R"({"rope_scaling": {"rope_type": "longrope", "short_factor": [1, 1], "long_factor": [1]}})",
       "rope_scaling.long_factor"},
      {"llama", R"({"rope_scaling": {"rope_type": "longrope", "short_factor": [1, 0], "long_factor": [1, 1]}})",
       "rope_scaling.short_factor"},
      {"phi3", R"({"resid_pdrop": 0.1})", "resid_pdrop"},
      {"phi3", R"({"embd_pdrop": 0.1})", "embd_pdrop"},
      {"phi3", R"({"partial_rotary_factor": 0.3})", "partial_rotary_factor"},
      {"phi3", R"({"partial_rotary_factor": 2})", "partial_rotary_factor"},
      {"smollm3", R"({"no_rope_layers": [1, 1]})", "no_rope_layers"},
      {"smollm3", R"({"num_hidden_layers": 2, "no_rope_layers": [1, 2]})", "no_rope_layers"},
      {"smollm3", R"({"use_sliding_window": true})", "use_sliding_window"},
  };
  for (const auto& [type, more, key] : cases) {
    std::string message;
    try {
      read(type, more);
    } catch (const Error& error) {
      message = error.what();
    }
    EXPECT_THAT(message, HasSubstr("config.json: " + std::string(key) + ":")) << type << " " << more;
  }
}

}  // namespace
}  // namespace fathom::arch
