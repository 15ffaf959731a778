// Text parts of models that see pictures: by what config.json says, and where it is silent.
#include "arch/read_text_part.h"

#include <gtest/gtest.h>

#include "arch/architecture.h"
#include "base/error.h"
#include "base/json_value.h"

namespace fathom::arch {
namespace {

Architecture parse(const std::string& text) { return parse_architecture(parse_json(text, "config"), "config.json"); }

std::string refusal_of(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(TextPart, OfGemmaHasTheDefaultsOfItsClass) {
  const Architecture gemma = parse(R"({"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
      "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
                      "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
                      "sliding_window": 1024},
      "torch_dtype": "bfloat16", "eos_token_id": [1, 106], "vision_config": {"hidden_size": 1152}})");
  EXPECT_EQ(gemma.family, "Gemma3ForCausalLM");
  EXPECT_EQ(gemma.vocab_size, 262208);
  EXPECT_EQ(gemma.attention().heads, 8);
  EXPECT_EQ(gemma.attention().key_value_heads, 4);
  EXPECT_EQ(gemma.head_dim(), 256);
  EXPECT_EQ(gemma.num_hidden_layers(), 34);
  EXPECT_TRUE(gemma.tie_word_embeddings);
  EXPECT_EQ(gemma.dtype, DType::kBF16);
  EXPECT_EQ(gemma.eos_token_ids, (std::vector<int64_t>{1, 106}));
  EXPECT_EQ(gemma.layers[0].attention().window, 1024);
  EXPECT_EQ(gemma.layers[5].attention().window, 0);
  EXPECT_EQ(gemma.layers[5].attention().rotary->scaling, RopeScaling(LinearRope{8}));
  ASSERT_TRUE(gemma.text_part);
  EXPECT_EQ(gemma.text_part->whole, "Gemma3ForConditionalGeneration");
  EXPECT_EQ(gemma.text_part->model, "language_model.model.");
  EXPECT_EQ(gemma.text_part->placeholder_ids, std::vector<int64_t>{262144});
}

TEST(TextPart, OfMistralIsOfTheTypeThatTextConfigNames) {
  const auto family_of = [](const std::string& text) {
    return parse(R"({"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3",
                    "text_config": {)" +
                 text + "}}")
        .family;
  };
  EXPECT_EQ(family_of(R"("model_type": "mistral")"), "MistralForCausalLM");
  EXPECT_EQ(family_of(R"("model_type": "ministral3")"), "Ministral3ForCausalLM");
  EXPECT_EQ(family_of(""), "MistralForCausalLM");
}

// Every fourth layer attends; a head of its own unless the whole model says otherwise.
TEST(TextPart, OfQwen35HasTheDefaultsOfItsClass) {
  const Architecture qwen = parse(R"({"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5",
      "text_config": {"num_hidden_layers": 4, "tie_word_embeddings": true, "dtype": "bfloat16",
                      "rope_parameters": {"rope_type": "mrope", "rope_theta": 1e7, "mrope_section": [11, 11, 10]}}})");
  EXPECT_EQ(qwen.family, "Qwen3_5ForCausalLM");
  EXPECT_EQ(qwen.vocab_size, 248320);
  EXPECT_EQ(qwen.hidden_size, 4096);
  EXPECT_EQ(qwen.layers[2].mixer, Mixer(GatedDelta{16, 32, 128, 128, 4}));
  EXPECT_EQ(qwen.layers[3].attention().rotary, (Rotary{.width = 64, .theta = 1e7}));
  EXPECT_FALSE(qwen.tie_word_embeddings);
  EXPECT_EQ(qwen.dtype, DType::kBF16);
  ASSERT_TRUE(qwen.text_part);
  EXPECT_EQ(qwen.text_part->model, "model.language_model.");
  EXPECT_EQ(qwen.text_part->placeholder_ids, (std::vector<int64_t>{248056, 248057}));
}

constexpr const char* kFlat = R"("architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl",
    "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_hidden_layers": 2,
    "num_key_value_heads": 2, "vocab_size": 300, "rms_norm_eps": 1e-06, "rope_theta": 500000.0,
    "image_token_id": 290, "vision_config": {"depth": 32}, "use_sliding_window": false, "sliding_window": 32768)";

TEST(TextPart, OfOlderFoldersStandsBesideTheOtherKeys) {
  const std::string flat = kFlat;
  const Architecture plain = parse("{" + flat + "}");
  EXPECT_EQ(plain.family, "Qwen2ForCausalLM");
  EXPECT_EQ(plain.text_part->model, "model.");
  EXPECT_EQ(plain.text_part->placeholder_ids, (std::vector<int64_t>{290, 151656}));
  EXPECT_TRUE(plain.attention().input_bias);
  EXPECT_FALSE(plain.tie_word_embeddings);
  EXPECT_TRUE(parse("{" + flat + R"(, "tie_word_embeddings": true})").tie_word_embeddings);
}

TEST(TextPart, TurnsByOneOfThreeGrids) {
  const std::string flat = kFlat;
  const Rotary plain = *parse("{" + flat + "}").attention().rotary;
  for (const char* key : {"type", "rope_type"}) {
    const std::string rope =
        R"(, "rope_scaling": {")" + std::string(key) + R"(": "mrope", "mrope_section": [2, 3, 3]}})";
    EXPECT_EQ(*parse("{" + flat + rope).attention().rotary, plain) << key;
  }
  const Architecture qwen3 = parse(R"({"model_type": "qwen3_vl", "text_config": {"model_type": "qwen3_vl_text",
      "num_hidden_layers": 1, "rope_scaling": {"mrope_interleaved": true, "mrope_section": [24, 20, 20],
      "rope_type": "default"}}})");
  EXPECT_EQ(qwen3.attention().rotary->theta, 5e5);
  EXPECT_EQ(qwen3.attention().rotary->scaling, RopeScaling());
  EXPECT_EQ(qwen3.attention().query_key_norm, QueryKeyNorm::kEachHead);
}

// The class that owns the head asks its own key; Qwen2-VL's that of text_config too.
TEST(TextPart, HasAHeadAsTheWholeModelSays) {
  const auto tied = [](const std::string& model, const std::string& outer, const std::string& inner) {
    return parse(R"({"model_type": ")" + model + R"(", )" + outer + R"("text_config": {)" + inner +
                 R"("num_hidden_layers": 1}})")
        .tie_word_embeddings;
  };
  const std::string yes = R"("tie_word_embeddings": true, )", no = R"("tie_word_embeddings": false, )";
  EXPECT_TRUE(tied("gemma3", "", ""));
  EXPECT_TRUE(tied("mistral3", "", no));
  EXPECT_FALSE(tied("mistral3", no, yes));
  EXPECT_FALSE(tied("qwen3_vl", "", yes));
  EXPECT_TRUE(tied("qwen3_vl", yes, no));
  EXPECT_TRUE(tied("qwen2_5_vl", "", yes));
  EXPECT_TRUE(tied("qwen2_vl", no, yes));
  EXPECT_FALSE(tied("qwen2_vl", "", ""));
}

// What took it out of its folder left the whole model's class.
TEST(TextPart, MayBeAllThatThereIs) {
  const Architecture alone = parse(R"({"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3_text",
      "num_hidden_layers": 2})");
  EXPECT_EQ(alone.family, "Gemma3ForCausalLM");
  EXPECT_EQ(alone.hidden_size, 2304);
  EXPECT_FALSE(alone.text_part);
}

TEST(TextPart, IsRefusedByKey) {
  const std::string gemma = R"("architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3")";
  EXPECT_NE(refusal_of("{" + gemma + "}").find("config.json: text_config: is missing"), std::string::npos);
  EXPECT_NE(refusal_of("{" + gemma + R"(, "text_config": 3})").find("text_config: expected an object"),
            std::string::npos);
  const std::string unknown = refusal_of("{" + gemma + R"(, "text_config": {"model_type": "gemma9_text"}})");
  EXPECT_NE(unknown.find("text_config: model_type: \"gemma9_text\" is not supported"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("gemma3_text"), std::string::npos) << unknown;
  const std::string within = refusal_of("{" + gemma + R"(, "text_config": {"hidden_size": -1}})");
  EXPECT_NE(within.find("text_config: hidden_size"), std::string::npos) << within;
}

}  // namespace
}  // namespace fathom::arch
