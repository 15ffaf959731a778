// GPT-2's config.json: its own keys, its defaults, its names, what it refuses.
#include "arch/read_gpt2.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch/stored_parts.h"
#include "base/error.h"
#include "base/json_value.h"

namespace fathom::arch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Architecture read(const char* more) {
  Json config = parse_json(R"({"model_type": "gpt2", "n_embd": 12, "n_layer": 1, "n_head": 3})", "config.json");
  config.update(parse_json(more, "more"));
  return parse_architecture(config, "config.json");
}

TEST(ReadGpt2, HasTheDefaultsOfTransformers) {
  const Architecture silent = parse_architecture(parse_json(R"({"model_type": "gpt2"})", "config.json"), "config.json");
  EXPECT_EQ(parameter_count(silent), 124'439'808);
  EXPECT_EQ(silent.family, "GPT2LMHeadModel");
  EXPECT_EQ(silent.max_position_embeddings, 1024);
  EXPECT_EQ(silent.norm_eps, 1e-5);
  EXPECT_EQ(silent.dropout, 0.1);
  EXPECT_EQ(silent.inner_dropout, 0);
  EXPECT_TRUE(silent.tie_word_embeddings && silent.learned_positions && silent.centred_norms && silent.biased_norms);
  EXPECT_EQ(silent.bos_token_id, 50256);
  EXPECT_THAT(silent.eos_token_ids, ElementsAre(50256));
  EXPECT_FALSE(silent.layers.front().attention().rotary);
  EXPECT_EQ(silent.layers.front().feed_forward.width, 3072);
  EXPECT_EQ(read(R"({"n_inner": null})").layers.front().feed_forward.width, 48);
  EXPECT_THAT(read(R"({"vocab_size": 99})").eos_token_ids, ::testing::IsEmpty()) << "beyond this vocabulary";
}

TEST(ReadGpt2, ReadsTheOtherNamesOfItsKeys) {
  const auto bare = [](const char* more) {
    Json config = parse_json(R"({"model_type": "gpt2"})", "config.json");
    config.update(parse_json(more, "more"));
    return parse_architecture(config, "config.json");
  };
  EXPECT_EQ(bare(R"({"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3,
                     "max_position_embeddings": 64})"),
            bare(R"({"n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 64})"));
  EXPECT_EQ(read(R"({"num_attention_heads": 3})"), read("{}")) << "twice the same";
}

TEST(ReadGpt2, NamesAsHuggingFaceAndStoresMatricesByWhatTheyRead) {
  const Architecture architecture = read("{}");
  std::vector<std::string> names;
  std::vector<std::string> transposed;
  for (const ParameterSpec& spec : parameter_specs(architecture)) {
    names.push_back(spec.name);
    const StoredPart part = stored_parts(architecture, spec).front();
    if (!part.transposed) continue;
    transposed.push_back(spec.name);
    EXPECT_EQ(part.shape, (std::vector<int64_t>{spec.shape[1], spec.shape[0]}));
  }
  EXPECT_THAT(names,
              ::testing::UnorderedElementsAre(
                  "transformer.wte.weight", "transformer.wpe.weight", "transformer.h.0.ln_1.weight",
                  "transformer.h.0.ln_1.bias", "transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.c_attn.bias",
                  "transformer.h.0.attn.c_proj.weight", "transformer.h.0.attn.c_proj.bias",
                  "transformer.h.0.ln_2.weight", "transformer.h.0.ln_2.bias", "transformer.h.0.mlp.c_fc.weight",
                  "transformer.h.0.mlp.c_fc.bias", "transformer.h.0.mlp.c_proj.weight",
                  "transformer.h.0.mlp.c_proj.bias", "transformer.ln_f.weight", "transformer.ln_f.bias"));
  EXPECT_THAT(transposed, ::testing::UnorderedElementsAre(
                              "transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.c_proj.weight",
                              "transformer.h.0.mlp.c_fc.weight", "transformer.h.0.mlp.c_proj.weight"));
  EXPECT_TRUE(stores_transposed(architecture));
  const auto spellings = stored_spellings(architecture, parameter_specs(architecture).front());
  ASSERT_EQ(spellings.size(), 2U);
  EXPECT_EQ(spellings[1].front().name, "wte.weight") << "as the folders on the hub have it";
}

TEST(ReadGpt2, RefusesByKeyWhatItCannotExpress) {
  const struct {
    const char *more, *key;
  } cases[] = {
      {R"({"n_head": 5})", "n_head"},
      {R"({"resid_pdrop": 1})", "resid_pdrop"},
      {R"({"attn_pdrop": 0.3})", "attn_pdrop"},
      {R"({"embd_pdrop": 0})", "embd_pdrop"},
      {R"({"activation_function": "relu"})", "activation_function"},
      {R"({"scale_attn_weights": false})", "scale_attn_weights"},
      {R"({"scale_attn_by_inverse_layer_idx": true})", "scale_attn_by_inverse_layer_idx"},
      {R"({"add_cross_attention": true})", "add_cross_attention"},
      {R"({"n_layer": 20000})", "n_layer"},
      {R"({"num_attention_heads": 4})", "num_attention_heads"},
      {R"({"hidden_size": 24})", "hidden_size"},
      {R"({"num_hidden_layers": 2})", "num_hidden_layers"},
      {R"({"n_positions": 64, "max_position_embeddings": 128})", "max_position_embeddings"},
      {R"({"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": true}})", "quantization_config"},
  };
  for (const auto& [more, key] : cases) {
    std::string message;
    try {
      read(more);
    } catch (const Error& error) {
      message = error.what();
    }
    EXPECT_THAT(message, HasSubstr("config.json: " + std::string(key) + ":")) << more;
  }
}

}  // namespace
}  // namespace fathom::arch
