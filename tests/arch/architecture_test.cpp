// config.json as both spellings of transformers write it, what is refused by key, and PEFT's matching of module names.
#include "arch/architecture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/json_value.h"
#include "tests/arch/refusal_of_config.h"

namespace fathom::arch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// As transformers 5.23 saves it.
Json new_spelling() {
  return parse_json(R"({
    "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 1,
    "dtype": "bfloat16", "eos_token_id": 2, "head_dim": 8, "hidden_act": "silu", "hidden_size": 32,
    "initializer_range": 0.02, "intermediate_size": 44, "max_position_embeddings": 128, "mlp_bias": false,
    "model_type": "llama", "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
    "pad_token_id": null, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}, "tie_word_embeddings": false,
    "transformers_version": "5.23.0", "use_cache": true, "vocab_size": 50})",
                    "config.json");
}

Json with(const char* key, const char* value) {
  Json config = new_spelling();
  config[key] = parse_json(value, "value");
  return config;
}

TEST(Architecture, ReadsTheNewSpelling) {
  const Architecture architecture = parse_architecture(new_spelling(), "config.json");
  EXPECT_EQ(architecture.family, "LlamaForCausalLM");
  EXPECT_EQ(architecture.vocab_size, 50);
  EXPECT_EQ(architecture.hidden_size, 32);
  const LayerSpec layer{
      .mixer =
          arch::Attention{
              .heads = 4, .key_value_heads = 2, .head_dim = 8, .rotary = Rotary{.width = 8, .theta = 500000}},
      .feed_forward = {.width = 44}};
  EXPECT_THAT(architecture.layers, ElementsAre(layer, layer));
  EXPECT_EQ(architecture.norm_eps, 1e-5);
  EXPECT_EQ(architecture.max_position_embeddings, 128);
  EXPECT_EQ(architecture.dtype, DType::kBF16);
  EXPECT_EQ(architecture.bos_token_id, 1);
  EXPECT_FALSE(architecture.pad_token_id);
  EXPECT_THAT(architecture.eos_token_ids, ElementsAre(2));
}

TEST(Architecture, ReadsTheOldSpellingAndItsDefaults) {
  const Json config = parse_json(R"({
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 100, "num_attention_heads": 4, "vocab_size": 10,
    "num_hidden_layers": 1, "rope_theta": 2000, "rope_scaling": null, "torch_dtype": "float16", "pad_token_id": -1,
    "eos_token_id": [2, 3], "tie_word_embeddings": true})",
                                 "config.json");
  const Architecture architecture = parse_architecture(config, "config.json");
  EXPECT_EQ(architecture.layers.at(0).attention().key_value_heads, 4);
  EXPECT_EQ(architecture.layers.at(0).attention().head_dim, 16);
  EXPECT_EQ(architecture.layers.front().attention().rotary->theta, 2000);
  EXPECT_EQ(architecture.norm_eps, 1e-6);
  EXPECT_EQ(architecture.initializer_range, 0.02);
  EXPECT_EQ(architecture.max_position_embeddings, 2048);
  EXPECT_EQ(architecture.dtype, DType::kF16);
  EXPECT_TRUE(architecture.tie_word_embeddings);
  EXPECT_THAT(architecture.eos_token_ids, ElementsAre(2, 3));
  EXPECT_FALSE(architecture.pad_token_id);
}

TEST(Architecture, RefusesByKeyWhatTheDecoderCannotExpress) {
  EXPECT_EQ(refusal_of_config(new_spelling()), "");
  const std::vector<std::pair<const char*, const char*>> refused = {
      {"architectures", R"(["GPT2LMHeadModel"])"},
      {"architectures", R"(["LlamaForCausalLM", "MistralForCausalLM"])"},
      {"architectures", "[3]"},
      {"model_type", R"("mistral")"},  // beside LlamaForCausalLM
      {"architectures", "[]"},
      {"attention_bias", "1"},
      {"mlp_bias", R"("no")"},
      {"attention_dropout", "0.1"},
      {"hidden_act", R"("gelu")"},
      {"sliding_window", "4096"},
      {"quantization_config", R"({"bits": 4})"},
      {"use_sliding_window", "true"},
      {"layer_types", R"(["full_attention", "sliding_attention"])"},
      {"layer_types", R"(["full_attention"])"},
      {"layer_types", R"(["full_attention", "chunked_attention"])"},
      {"rope_scaling", R"({"rope_type": "llama3", "factor": 8.0})"},
      {"rope_scaling", R"({"rope_type": "llama3", "factor": 0.5, "low_freq_factor": 1, "high_freq_factor": 4})"},
      {"rope_scaling", R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4})"},
      {"rope_scaling", R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                           "original_max_position_embeddings": 0})"},
      {"rope_scaling", R"({"rope_type": "default", "rope_theta": 10000})"},
      {"rope_scaling", "8"},
      {"rope_scaling", R"({"type": "linear", "factor": 0.5})"},
      {"rope_parameters", R"({"rope_type": "dynamic", "rope_theta": 10000, "factor": 2})"},
      {"rope_theta", "10000"},  // beside rope_parameters that say 500000
      {"partial_rotary_factor", "0.5"},
      {"num_key_value_heads", "3"},
      {"head_dim", "7"},
      {"head_dim", "0"},
      {"hidden_size", "-32"},
      {"hidden_size", "32.0"},
      {"hidden_size", R"("32")"},
      {"hidden_size", "null"},
      {"vocab_size", "9223372036854775808"},
      {"num_hidden_layers", "100000"},
      {"rms_norm_eps", "-1e-5"},
      {"rms_norm_eps", "NaN"},
      {"dtype", R"("int8")"},
      {"dtype", R"("float33")"},
      {"dtype", "16"},
      {"tie_word_embeddings", "1"},
      {"bos_token_id", "50"},
      {"eos_token_id", "[2, 50]"},
      {"eos_token_id", R"(["</s>"])"},
  };
  for (const auto& [key, value] : refused) {
    std::string message;
    try {
      message = refusal_of_config(with(key, value));
    } catch (const std::exception& error) {
      message = error.what();
    }
    EXPECT_THAT(message, HasSubstr(key)) << value;
    EXPECT_THAT(message, HasSubstr("config.json")) << value;
  }
  EXPECT_NE(refusal_of_config(parse_json("[]", "x")), "");
  Json no_head_dim = with("hidden_size", "33");
  no_head_dim.erase("head_dim");
  EXPECT_THAT(refusal_of_config(no_head_dim), HasSubstr("num_attention_heads"));
}

// What T5's config.json says at least, and more.
Json t5_with(const std::string& more) {
  Json config = parse_json(R"({"architectures": ["T5ForConditionalGeneration"], "model_type": "t5"})", "config.json");
  config.update(parse_json(more, "more"));
  return config;
}
Architecture read_t5_with(const std::string& more) { return parse_architecture(t5_with(more), "config.json"); }

TEST(T5, HasTheDefaultsOfTransformers) {
  const Architecture t5 = read_t5_with("{}");
  EXPECT_EQ(t5.family, "T5ForConditionalGeneration");
  EXPECT_EQ(t5.vocab_size, 32128);
  EXPECT_EQ(t5.hidden_size, 512);
  LayerSpec layer{.mixer = arch::Attention{.heads = 8, .key_value_heads = 8, .head_dim = 64, .scaled = false},
                  .feed_forward = {.width = 2048, .gated = false, .activation = Activation::kRelu},
                  .naming = Naming::kT5};
  std::vector<LayerSpec> layers(6, layer);
  layer.cross = true;
  layers.insert(layers.end(), 6, layer);
  EXPECT_EQ(t5.layers, layers);
  EXPECT_EQ(t5.encoder, (Encoder{6, 0}));
  EXPECT_EQ(t5.relative, (RelativePositions{32, 128}));
  EXPECT_EQ(t5.dropout, 0.1);
  EXPECT_EQ(t5.norm_eps, 1e-6);
  EXPECT_EQ(t5.initializer_range, 1);
  EXPECT_EQ(t5.dtype, DType::kF32);
  EXPECT_EQ(t5.pad_token_id, 0);
  EXPECT_THAT(t5.eos_token_ids, ElementsAre(1));
  EXPECT_FALSE(t5.bos_token_id);
}

TEST(T5, HasHeadsOfAnySizeAndTwoNumbersOfLayers) {
  const Architecture t5 = read_t5_with(R"({"d_model": 24, "num_heads": 3, "d_kv": 5, "d_ff": 40, "num_layers": 2,
      "num_decoder_layers": 3, "decoder_start_token_id": 7, "dropout_rate": 0, "vocab_size": 50})");
  EXPECT_EQ(t5.num_hidden_layers(), 5);
  EXPECT_EQ(t5.encoder, (Encoder{2, 7}));
  EXPECT_EQ(t5.layers.back().attention().queries(), 15);
  EXPECT_EQ(t5.dropout, 0);
  EXPECT_EQ(t5.layer_prefix(1), "encoder.block.1.");
  EXPECT_EQ(t5.layer_prefix(2), "decoder.block.0.");
  EXPECT_EQ(read_t5_with(R"({"num_layers": 4, "num_decoder_layers": null})").num_hidden_layers(), 8);
}

// As transformers' attribute_map has them.
TEST(T5, ReadsTheOtherNamesOfItsKeys) {
  EXPECT_EQ(read_t5_with(R"({"hidden_size": 24, "num_attention_heads": 3, "head_dim": 5, "num_hidden_layers": 6})"),
            read_t5_with(R"({"d_model": 24, "num_heads": 3, "d_kv": 5})"));
  EXPECT_EQ(read_t5_with(R"({"d_model": 24, "hidden_size": 24})"), read_t5_with(R"({"d_model": 24})"));
  const Architecture silent = read_t5_with(R"({"num_hidden_layers": 2})");
  EXPECT_EQ(silent.encoder->layers, 2);
  EXPECT_EQ(silent.num_hidden_layers(), 2 + 6) << "there a decoder without a key goes by num_layers alone";
  for (const auto& [key, other] : {std::pair("d_model", "hidden_size"),
                                   {"num_heads", "num_attention_heads"},
                                   {"d_kv", "head_dim"},
                                   {"num_layers", "num_hidden_layers"}}) {
    EXPECT_THAT(refusal_of_config(t5_with("{\"" + std::string(key) + "\": 6, \"" + other + "\": 3}")),
                HasSubstr("config.json: " + std::string(other) + ": 3 is not what " + key + " says"));
  }
}

TEST(T5, TellsATiedHeadFromAScaledOne) {
  struct Form {
    const char* says;
    bool tied, scaled;
  };
  for (const Form& form : {Form{"{}", true, true}, Form{R"({"tie_word_embeddings": true})", true, true},
                           Form{R"({"tie_word_embeddings": false})", false, false},
                           Form{R"({"tie_word_embeddings": true, "scale_decoder_outputs": false})", true, false},
                           Form{R"({"tie_word_embeddings": false, "scale_decoder_outputs": true})", false, true}}) {
    const Architecture t5 = read_t5_with(form.says);
    EXPECT_EQ(t5.tie_word_embeddings, form.tied) << form.says;
    EXPECT_DOUBLE_EQ(t5.head_scale, form.scaled ? 1 / std::sqrt(512.0) : 1) << form.says;
    EXPECT_EQ(parameter_specs(t5).back().name == "lm_head.weight", !form.tied) << form.says;
  }
}

TEST(T5, ReadsActivationsWithAndWithoutAGate) {
  const auto feed_forward = [](const std::string& more) { return read_t5_with(more).layers.back().feed_forward; };
  const FeedForward gelu = feed_forward(R"({"feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu_new"})");
  EXPECT_TRUE(gelu.gated);
  EXPECT_EQ(gelu.activation, Activation::kGelu);
  EXPECT_EQ(feed_forward(R"({"feed_forward_proj": "gated-gelu"})"), gelu);
  EXPECT_EQ(feed_forward(R"({"feed_forward_proj": "gated-gelu_new"})"), gelu);
  EXPECT_EQ(feed_forward(R"({"feed_forward_proj": "gated-silu"})").activation, Activation::kSilu);
  EXPECT_FALSE(feed_forward(R"({"feed_forward_proj": "gelu_new"})").gated);
  EXPECT_EQ(feed_forward(R"({"feed_forward_proj": "relu", "dense_act_fn": "relu"})"), feed_forward("{}"));
}

TEST(T5, ReadsTokenIdsOverItsDefaults) {
  EXPECT_THAT(read_t5_with(R"({"eos_token_id": 5})").eos_token_ids, ElementsAre(5));
  EXPECT_THAT(read_t5_with(R"({"eos_token_id": [5, 6]})").eos_token_ids, ElementsAre(5, 6));
  EXPECT_THAT(read_t5_with(R"({"eos_token_id": null})").eos_token_ids, ::testing::IsEmpty());
  EXPECT_EQ(read_t5_with(R"({"pad_token_id": 3})").pad_token_id, 3);
  EXPECT_FALSE(read_t5_with(R"({"pad_token_id": null})").pad_token_id);
}

TEST(T5, RefusesByKeyWhatItsModelCannotExpress) {
  EXPECT_EQ(refusal_of_config(t5_with("{}")), "");
  const std::vector<std::pair<const char*, const char*>> refused = {
      {"model_type", R"("llama")"},
      {"is_encoder_decoder", "false"},
      {"is_encoder_decoder", "1"},
      {"feed_forward_proj", R"("gelu")"},  // with erf
      {"feed_forward_proj", R"("gated-relu")"},
      {"feed_forward_proj", "5"},
      {"dense_act_fn", R"("gelu_new")"},  // beside relu
      {"relative_attention_num_buckets", "3"},
      {"relative_attention_max_distance", "16"},  // of 32 buckets
      {"dropout_rate", "1"},
      {"dropout_rate", "-0.1"},
      {"decoder_start_token_id", "32128"},
      {"decoder_start_token_id", "-1"},
      {"eos_token_id", "32128"},
      {"num_layers", "10001"},
      {"num_decoder_layers", "10001"},
      {"num_heads", "0"},
      {"d_model", "512.0"},
      {"d_kv", "-64"},
      {"d_ff", R"("2048")"},
      {"layer_norm_epsilon", "-1e-6"},
      {"tie_word_embeddings", "1"},
      {"scale_decoder_outputs", R"("no")"},
  };
  for (const auto& [key, value] : refused) {
    const std::string message = refusal_of_config(t5_with(std::string("{\"") + key + "\": " + value + "}"));
    EXPECT_THAT(message, HasSubstr(std::string("config.json: ") + key)) << value;
  }
  EXPECT_THAT(refusal_of_config(t5_with(R"({"feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu"})")),
              HasSubstr("dense_act_fn: \"gelu\" is not what feed_forward_proj says"));
  EXPECT_EQ(
      refusal_of_config(t5_with(R"({"relative_attention_num_buckets": 4, "relative_attention_max_distance": 3})")), "");
}

TEST(Architecture, RefusesSizesWhoseProductOverflows) {
  Json config = with("hidden_size", "2147483648");
  config["vocab_size"] = 2147483648;
  config["intermediate_size"] = 2147483648;
  EXPECT_NE(refusal_of_config(config), "");
}

TEST(Architecture, ListsParametersInTheOrderOfTheForwardPass) {
  Json config = with("num_hidden_layers", "1");
  config["head_dim"] = 6;  // other than hidden_size / num_attention_heads
  const std::vector<ParameterSpec> specs = parameter_specs(parse_architecture(config, "config.json"));
  ASSERT_EQ(specs.size(), 12u);
  EXPECT_EQ(specs[0].name, "model.embed_tokens.weight");
  EXPECT_THAT(specs[0].shape, ElementsAre(50, 32));
  EXPECT_EQ(specs[1].name, "model.layers.0.input_layernorm.weight");
  EXPECT_FALSE(specs[1].is_matrix());
  EXPECT_EQ(specs[2].name, "model.layers.0.self_attn.q_proj.weight");
  EXPECT_THAT(specs[2].shape, ElementsAre(24, 32));
  EXPECT_THAT(specs[3].shape, ElementsAre(12, 32));
  EXPECT_THAT(specs[5].shape, ElementsAre(32, 24));
  EXPECT_EQ(specs[9].name, "model.layers.0.mlp.down_proj.weight");
  EXPECT_THAT(specs[9].shape, ElementsAre(32, 44));
  EXPECT_EQ(specs[10].name, "model.norm.weight");
  EXPECT_EQ(specs[11].name, "lm_head.weight");
}

TEST(Architecture, CountsTheParametersOfKnownModels) {
  Json llama_7b = parse_json(R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
      "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 32000})",
                             "config.json");
  EXPECT_EQ(parameter_count(parse_architecture(llama_7b, "config.json")), 6'738'415'616);
  Json llama_1b = parse_json(R"({"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "head_dim": 64,
      "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 16, "vocab_size": 128256,
      "tie_word_embeddings": true})",
                             "config.json");
  EXPECT_EQ(parameter_count(parse_architecture(llama_1b, "config.json")), 1'235'814'400);
}

}  // namespace
}  // namespace fathom::arch
