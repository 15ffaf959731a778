// The folders that transformers and PEFT read: names, dtype, copied files, and that each appears whole.
#include "checkpoint/model_files.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "arch/parameter_table.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "checkpoint/checkpoint.h"
#include "weights/folder.h"

namespace fathom::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
namespace fs = std::filesystem;

class ModelFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("fathom_model_files_" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_ / "base");
    files_.source = root_ / "base";
    put("config.json", R"({"model_type": "llama", "vocab_size": 5, "hidden_size": 6, "intermediate_size": 8,
                           "num_hidden_layers": 1, "num_attention_heads": 1, "dtype": "bfloat16"})");
    put("tokenizer.model", std::string("p\0q", 3));
    put("tokenizer_config.json", "{}");
    put("README.md", "not copied");
  }
  void TearDown() override { fs::remove_all(root_); }

  void put(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / "base" / name).parent_path());
    std::ofstream(root_ / "base" / name, std::ios::binary) << text;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_ / "run")) names.push_back(entry.path().filename().string());
    return names;
  }

  fs::path root_;
  ModelFiles files_;
};

TEST_F(ModelFilesTest, WritesAFolderOfTransformers) {
  put("generation_config.json", R"({"eos_token_id": 2})");
  const at::Tensor weight = at::arange(6, at::kFloat).view({2, 3});
  write_model(root_ / "run", {{"model.norm.weight", weight}}, files_);
  EXPECT_THAT(names(), UnorderedElementsAre("config.json", "generation_config.json", "tokenizer.model",
                                            "tokenizer_config.json", "model.safetensors"));
  const weights::ModelFolder folder(root_ / "run");
  EXPECT_EQ(folder.config()["dtype"], "float32");  // as stored, not as the source was
  EXPECT_EQ(folder.config()["model_type"], "llama");
  EXPECT_EQ((*folder.generation_config())["eos_token_id"], 2);
  const auto entry = folder.find("model.norm.weight");
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->info->dtype, DType::kF32);
  EXPECT_EQ(reinterpret_cast<const float*>(entry->data())[5], 5);
  EXPECT_EQ(read_file(root_ / "run/tokenizer.model"), std::string("p\0q", 3));
}

TEST_F(ModelFilesTest, CopiesATokenizerOfT5) {
  put("spiece.model", "pieces");
  write_model(root_ / "run", {{"w", at::zeros({1})}}, files_);
  EXPECT_EQ(read_file(root_ / "run/spiece.model"), "pieces");
}

TEST_F(ModelFilesTest, CopiesEveryChatTemplate) {
  put("chat_template.jinja", "{{ messages }}");
  put("additional_chat_templates/tool_use.jinja", "{{ tools }}");
  put("additional_chat_templates/rag.jinja", "{{ documents }}");
  put("additional_chat_templates/notes.txt", "not copied");
  write_model(root_ / "run", {{"w", at::zeros({1})}}, files_);
  EXPECT_THAT(names(), UnorderedElementsAre("config.json", "tokenizer.model", "tokenizer_config.json",
                                            "chat_template.jinja", "additional_chat_templates", "model.safetensors"));
  EXPECT_EQ(read_file(root_ / "run/additional_chat_templates/tool_use.jinja"), "{{ tools }}");
  EXPECT_EQ(std::distance(fs::directory_iterator(root_ / "run/additional_chat_templates"), {}), 2);
  const fs::path checkpoint = save(root_ / "run", 5, {{{"w", at::zeros({1})}}, {}, Json::object()}, files_, 0);
  const fs::path copy = checkpoint / "additional_chat_templates/rag.jinja";
  EXPECT_EQ(read_file(copy), "{{ documents }}");
  EXPECT_EQ(Checkpoint(checkpoint).step(), 5);
  std::ofstream(copy) << "{{ Documents }}";
  EXPECT_THROW(Checkpoint{checkpoint}, Error) << "what was copied is verified";
}

TEST_F(ModelFilesTest, CarriesNoPrivateFileAlong) {
  std::ofstream(root_ / "private") << "secret";
  const at::Tensor weight = at::zeros({1});
  for (const char* name : {"merges.txt", "generation_config.json", "chat_template.jinja"}) {
    fs::create_symlink("../private", root_ / "base" / name);
    const auto refused = ::testing::ThrowsMessage<Error>(::testing::HasSubstr("leads out of its folder"));
    EXPECT_THAT([&] { model_bytes({{"model.norm.weight", weight}}, files_); }, refused) << name;
    EXPECT_THAT([&] { write_model(root_ / "run", {{"model.norm.weight", weight}}, files_); }, refused) << name;
    EXPECT_THAT(names(), AllOf(Contains("model.safetensors"), Not(Contains(name)))) << "the weights are kept";
    fs::remove(root_ / "base" / name);
  }
  put("additional_chat_templates/rag.jinja", "x");
  fs::create_directory_symlink(root_ / "base", root_ / "run/additional_chat_templates");
  EXPECT_THROW(write_model(root_ / "run", {{"model.norm.weight", weight}}, files_), Error);
  EXPECT_FALSE(fs::exists(root_ / "base/rag.jinja"));
}

TEST_F(ModelFilesTest, KeepsTheSpellingOfTheType) {
  put("config.json", R"({"torch_dtype": "float32"})");
  write_model(root_ / "run", {{"w", at::zeros({1}, at::kBFloat16)}}, files_);
  const Json config = read_json(root_ / "run/config.json");
  EXPECT_EQ(config["torch_dtype"], "bfloat16");
  EXPECT_FALSE(config.contains("dtype"));
}

TEST_F(ModelFilesTest, CountsTheTokensThatWereAdded) {
  put("config.json", R"({"dtype": "float32", "vocab_size": 5})");
  write_model(root_ / "run", {{"model.embed_tokens.weight", at::zeros({7, 2})}}, files_);
  EXPECT_EQ(read_json(root_ / "run/config.json")["vocab_size"], 7);
}

TEST_F(ModelFilesTest, WritesAnAdapterOfPeft) {
  files_.lora = arch::LoraOptions{4, 16, 0.25, {"q_proj", "mlp.up_proj"}};
  write_model(root_ / "run",
              {{"model.layers.0.self_attn.q_proj.lora_A.weight", at::zeros({4, 6})},
               {"model.layers.0.self_attn.q_proj.lora_B.weight", at::zeros({6, 4})}},
              files_);
  EXPECT_THAT(names(), UnorderedElementsAre("adapter_config.json", "adapter_model.safetensors", "tokenizer.model",
                                            "tokenizer_config.json"));
  const Json config = read_json(root_ / "run/adapter_config.json");
  EXPECT_EQ(config["peft_type"], "LORA");
  EXPECT_EQ(config["task_type"], "CAUSAL_LM");
  EXPECT_EQ(config["r"], 4);
  EXPECT_EQ(config["lora_alpha"], 16);
  EXPECT_EQ(config["lora_dropout"], 0.25);
  EXPECT_EQ(config["target_modules"], Json({"q_proj", "mlp.up_proj"}));
  EXPECT_TRUE(fs::path(config["base_model_name_or_path"].get<std::string>()).is_absolute());
  const weights::SafetensorsFile file(root_ / "run/adapter_model.safetensors");
  EXPECT_EQ(file.tensors().size(), 2u);
  EXPECT_NE(file.find("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"), nullptr);
}

// Silent folders mean what transformers' class does.
TEST_F(ModelFilesTest, TiesAnAdaptersEmbeddingAsTheFamilyDoes) {
  files_.lora = arch::LoraOptions{.target_modules = {"q_proj"}};
  const auto written = [&](const std::string& family, Json changes, const std::string& embedding) {
    Json config = read_json(fs::path(FATHOM_SOURCE_DIR "/tests/model/golden") / family / "config.json");
    config.erase("tie_word_embeddings");
    config.update(changes);
    put("config.json", format_json(config));
    fs::remove_all(root_ / "run");
    write_model(root_ / "run", {{embedding, at::ones({3, 2})}}, files_);
    return read_json(root_ / "run/adapter_config.json");
  };
  const auto holds_head = [&] {
    const weights::SafetensorsFile file(root_ / "run/adapter_model.safetensors");
    return file.find("base_model.model.lm_head.weight") != nullptr;
  };
  const std::string llamas = "model.embed_tokens.weight", gpt2s = "transformer.wte.weight", t5s = "shared.weight";
  for (const auto& [family, embedding] : {std::pair("gpt2", gpt2s),
                                          {"gemma2", llamas},
                                          {"gemma3", llamas},
                                          {"cohere2", llamas},
                                          {"smollm3", llamas},
                                          {"t5_first", t5s}}) {
    EXPECT_EQ(written(family, Json::object(), embedding)["ensure_weight_tying"], true) << family;
    EXPECT_TRUE(holds_head()) << family;
    EXPECT_EQ(written(family, {{"tie_word_embeddings", false}}, embedding)["ensure_weight_tying"], false) << family;
    EXPECT_FALSE(holds_head()) << family;
  }
  EXPECT_EQ(written("qwen3", Json::object(), llamas)["ensure_weight_tying"], false);
  EXPECT_EQ(written("gpt2", {{"model_type", nullptr}}, gpt2s)["fan_in_fan_out"], true) << "as architectures says";
  EXPECT_EQ(written("t5_first", {{"model_type", nullptr}}, t5s)["task_type"], "SEQ_2_SEQ_LM");
  EXPECT_EQ(written("qwen3", Json::object(), llamas)["fan_in_fan_out"], false);
}

TEST_F(ModelFilesTest, NamesABaseFromTheHubByItsName) {
  files_.lora = arch::LoraOptions{};
  const auto named = [&](const std::string& base) {
    files_.base = base;
    write_model(root_ / "run", {{"a", at::zeros({1})}}, files_);
    return read_json(root_ / "run/adapter_config.json")["base_model_name_or_path"].get<std::string>();
  };
  EXPECT_EQ(named("Qwen/Qwen3-0.6B"), "Qwen/Qwen3-0.6B") << "not the snapshot in this machine's cache";
  EXPECT_EQ(named((root_ / "run/../base").string()), (root_ / "base").string());
  EXPECT_EQ(named(""), (root_ / "base").string());
}

TEST_F(ModelFilesTest, NamesTheTargetsThatWereChosen) {
  fs::create_directories(root_ / "run");
  auto targets = [&](std::vector<std::string> given) {
    files_.lora = arch::LoraOptions{8, 8, 0, std::move(given)};
    write_model(root_ / "run",
                {{"model.layers.0.self_attn.v_proj.lora_A.weight", at::zeros({1})},
                 {"model.layers.0.self_attn.v_proj.lora_B.weight", at::zeros({1})},
                 {"model.layers.0.self_attn.q_proj.lora_A.weight", at::zeros({1})},
                 {"model.norm.weight", at::zeros({1})}},
                files_);
    return read_json(root_ / "run/adapter_config.json")["target_modules"].get<std::vector<std::string>>();
  };
  EXPECT_THAT(targets({}), ElementsAre("q_proj", "v_proj"));
  EXPECT_THAT(targets({"all-linear"}), ElementsAre("q_proj", "v_proj"));
  EXPECT_THAT(targets({"q_proj", "0.self_attn.v_proj"}), ElementsAre("q_proj", "0.self_attn.v_proj"));
}

TEST_F(ModelFilesTest, ReplacesAnOlderModelAndCleansUp) {
  fs::create_directories(root_ / "run/.model.partial");
  write_model(root_ / "run", {{"w", at::zeros({2})}}, files_);
  write_model(root_ / "run", {{"w", at::ones({3})}}, files_);
  EXPECT_EQ(weights::ModelFolder(root_ / "run").find("w")->info->bytes, 12);
  EXPECT_FALSE(fs::exists(root_ / "run/.model.partial"));
}

TEST_F(ModelFilesTest, WhatStandsWhereAFileGoesIsRefusedBeforeOneIsWritten) {
  put("additional_chat_templates/a.jinja", "a");
  for (const char* name :
       {"config.json", "model.safetensors", "tokenizer.model", "additional_chat_templates/a.jinja"}) {
    fs::create_directories(root_ / "run" / name);
    EXPECT_THROW(require_places(root_ / "run", files_), Error) << name;
    EXPECT_THROW(write_model(root_ / "run", {{"w", at::zeros({2})}}, files_), Error) << name;
    fs::remove_all(root_ / "run" / name);
    EXPECT_FALSE(fs::exists(root_ / "run" / "tokenizer_config.json")) << name;
  }
  fs::remove(root_ / "run/additional_chat_templates");
  std::ofstream(root_ / "run/additional_chat_templates") << "a file";
  EXPECT_THROW(require_places(root_ / "run", files_), Error);
  fs::remove(root_ / "run/additional_chat_templates");
  fs::create_directory_symlink(root_ / "base", root_ / "run/additional_chat_templates");
  EXPECT_THROW(require_places(root_ / "run", files_), Error);
  fs::remove(root_ / "run/additional_chat_templates");
  EXPECT_NO_THROW(require_places(root_ / "run", files_));
  EXPECT_NO_THROW(require_places(root_ / "absent", files_));
}

}  // namespace
}  // namespace fathom::checkpoint
