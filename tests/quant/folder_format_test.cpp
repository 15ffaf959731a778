// quantization_config: what is written is read, and everything else is refused with file, key and what is known.
#include "quant/folder_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json_value.h"
#include "quant/left_out.h"

namespace fathom::quant {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const Json& config) {
  try {
    parse_quantization_config(config, "m/config.json");
    return "";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("m/config.json: quantization_config"), HasSubstr("known are bitsandbytes")));
    return error.what();
  }
}

Json changed(Scheme scheme, const std::string& pointer, const Json& value) {
  Json config = quantization_config(scheme);
  config[Json::json_pointer(pointer)] = value;
  return config;
}

TEST(FolderFormat, IsReadAsItIsWritten) {
  for (const SchemeRow& row : schemes()) {
    for (const bool beside_others : {false, true}) {
      Json config = quantization_config(row.scheme);
      if (beside_others) config = beside_other_parts(std::move(config));
      EXPECT_EQ(parse_quantization_config(config, "config.json"), format_of(row.scheme));
      EXPECT_EQ(config.dump().find("model.vision_tower") != std::string::npos, beside_others);
    }
  }
}

TEST(FolderFormat, IsReadAsOthersWriteIt) {
  const auto format = [](const Json& config) { return parse_quantization_config(config, "config.json"); };
  const Json rows = {{"num_bits", 8}, {"type", "int"}, {"symmetric", true}, {"strategy", "channel"}};
  Json config = changed(Scheme::kFp8, "/config_groups/group_0/weights", rows);
  config["format"] = "int-quantized";
  EXPECT_EQ(format(config), (FolderFormat{Scheme::kInt8, Library::kCompressedTensors}));
  EXPECT_EQ(format(changed(Scheme::kFp8, "/config_groups/group_0/input_activations", {{"dynamic", true}})),
            format_of(Scheme::kFp8))
      << "activations are not rounded here";
  EXPECT_EQ(format(changed(Scheme::kInt8, "/llm_int8_skip_modules", {"lm_head"})), format_of(Scheme::kInt8));
  EXPECT_EQ(format(changed(Scheme::kFp8, "/ignore", {"re:.*lm_head"})), format_of(Scheme::kFp8));
  EXPECT_EQ(format(changed(Scheme::kFp8, "/ignore", {"re:vision_tower.*", "multi_modal_projector.linear_1"})),
            format_of(Scheme::kFp8));
}

TEST(FolderFormat, OfMxfp4HasExpertsAlone) {
  EXPECT_EQ(parse_quantization_config({{"quant_method", "mxfp4"}}, "config.json"), format_of(Scheme::kMxfp4));
  EXPECT_TRUE(asks_for_mxfp4({{"quant_method", "mxfp4"}}));
  EXPECT_FALSE(asks_for_mxfp4({{"quant_method", "gptq"}}));
  EXPECT_FALSE(asks_for_mxfp4("mxfp4"));
  EXPECT_THAT(refusal(changed(Scheme::kMxfp4, "/modules_to_not_convert", {"model.layers.3.mlp.experts"})),
              HasSubstr("is left out"));
  EXPECT_THAT(refusal(changed(Scheme::kMxfp4, "/modules_to_not_convert", "lm_head")), HasSubstr("expected a list"));
}

TEST(FolderFormat, OfFp8HasBlocksOf128) {
  const FolderFormat blocks = format_of(Scheme::kFp8Block128);
  const auto format = [](const Json& config) { return parse_quantization_config(config, "config.json"); };
  const Json deepseek = {
      {"activation_scheme", "dynamic"}, {"fmt", "e4m3"}, {"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  EXPECT_EQ(format(deepseek), blocks);
  EXPECT_EQ(format({{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}}), blocks);
  EXPECT_TRUE(asks_for_fp8_blocks(deepseek));
  EXPECT_FALSE(asks_for_mxfp4(deepseek));
  for (const char* key : {"modules_to_not_convert", "ignored_layers"}) {
    const auto with = [&](const Json& value) {
      Json config = deepseek;
      config[key] = value;
      return config;
    };
    EXPECT_EQ(format(with(nullptr)), blocks);
    EXPECT_EQ(format(with({"lm_head", "model.embed_tokens", "model.norm", "model.layers.0.input_layernorm",
                           "model.layers.0.self_attn.q_norm", "model.layers.0.mlp.gate", "gate",
                           "model.layers.0.block_sparse_moe.gate.e_score_correction_bias"})),
              blocks);
    for (const char* projection : {"model.layers.0.mlp.gate_proj", "model.layers.0.mlp.shared_expert_gate",
                                   "model.layers.61.self_attn", "model.layers.0.mlp.gate.0"}) {
      EXPECT_THAT(refusal(with({"lm_head", projection})), AllOf(HasSubstr(key), HasSubstr("is left out")));
    }
    EXPECT_THAT(refusal(with("lm_head")), HasSubstr("expected a list"));
  }
  const auto with = [&](const char* key, const Json& value) { return refusal(changed(blocks.scheme, key, value)); };
  EXPECT_THAT(with("/fmt", "e5m2"), HasSubstr(R"(fmt: expected "e4m3", got "e5m2")"));
  EXPECT_THAT(with("/activation_scheme", "static"), HasSubstr(R"(expected "dynamic", got "static")"));
  EXPECT_THAT(with("/weight_block_size", {64, 128}), HasSubstr("expected [128,128], got [64,128]"));
  EXPECT_THAT(with("/weight_block_size", nullptr), HasSubstr("weight_block_size: is missing"));
}

TEST(FolderFormat, IsRefusedWhereItIsUnknown) {
  EXPECT_THAT(refusal("gptq"), HasSubstr("expected an object"));
  EXPECT_THAT(refusal(Json::object()), HasSubstr("quant_method: is missing"));
  EXPECT_THAT(refusal({{"quant_method", "gptq"}}), HasSubstr("\"gptq\" is not supported"));
  EXPECT_THAT(refusal({{"quant_method", 7}}), HasSubstr("expected a string"));
  EXPECT_THAT(refusal({{"quant_method", "bitsandbytes"}}), HasSubstr("load_in_8bit"));
  EXPECT_THAT(refusal(changed(Scheme::kInt8, "/load_in_4bit", true)), HasSubstr("not both"));
  EXPECT_THAT(refusal(changed(Scheme::kInt8, "/load_in_4bit", "yes")), HasSubstr("expected true or false"));
  EXPECT_THAT(refusal(changed(Scheme::kNf4, "/bnb_4bit_quant_type", "fp4")), HasSubstr(R"(expected "nf4", got "fp4")"));
  EXPECT_THAT(refusal(changed(Scheme::kNf4, "/bnb_4bit_quant_storage", "bfloat16")),
              HasSubstr("bnb_4bit_quant_storage"));
  EXPECT_THAT(refusal(changed(Scheme::kInt8, "/llm_int8_skip_modules", {"lm_head", "down_proj"})),
              HasSubstr(R"("down_proj" is left out)"));
  EXPECT_THAT(refusal(changed(Scheme::kFp8, "/format", "nvfp4-pack-quantized")), HasSubstr("nvfp4-pack-quantized"));
  EXPECT_THAT(refusal(changed(Scheme::kFp8, "/quantization_status", "initialized")), HasSubstr("quantization_status"));
  EXPECT_THAT(refusal(changed(Scheme::kFp8, "/ignore", {"model.layers.0.mlp.up_proj"})), HasSubstr("is left out"));
  const std::string group = "/config_groups/group_0";
  EXPECT_THAT(refusal(changed(Scheme::kFp8, group + "/targets", {"re:.*q_proj"})), HasSubstr("group_0.targets"));
  EXPECT_THAT(refusal(changed(Scheme::kFp8, group + "/input_activations", {{"dynamic", false}})), HasSubstr("dynamic"));
  EXPECT_THAT(refusal(changed(Scheme::kFp8, group + "/weights/strategy", "block")), HasSubstr("\"block\""));
  EXPECT_THAT(refusal(changed(Scheme::kFp8, group + "/weights/symmetric", false)), HasSubstr("symmetric"));
  EXPECT_THAT(refusal(changed(Scheme::kInt4Group32, group + "/weights/group_size", 8)),
              HasSubstr("128, 64, 32 or 16, got 8"));
  EXPECT_THAT(refusal(changed(Scheme::kInt4Group32, group + "/weights/group_size", "32")),
              HasSubstr("128, 64, 32 or 16"));
  EXPECT_THAT(refusal(changed(Scheme::kInt4Group32, group + "/weights/num_bits", 3)), HasSubstr("expected 4, got 3"));
  EXPECT_THAT(refusal(changed(Scheme::kInt4Group32, group + "/weights/actorder", "group")), HasSubstr("actorder"));
  EXPECT_THAT(refusal(changed(Scheme::kInt4Group32, "/config_groups", Json::object())), HasSubstr("one group"));
  EXPECT_THAT(refusal(changed(Scheme::kInt4Group32, "/kv_cache_scheme", {{"num_bits", 8}})),
              HasSubstr("kv_cache_scheme"));
}

}  // namespace
}  // namespace fathom::quant
