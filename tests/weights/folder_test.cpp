// Model folders: single files, shards, and the ways in which an index can lie.
#include "weights/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/json_value.h"

namespace fathom::weights {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Folder : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / ("fathom_folder_" + std::to_string(::getpid()));
    folder_ = root_ / "model";
    std::filesystem::create_directories(folder_);
    put("config.json", R"({"model_type": "llama"})");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void put(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  void put_tensor(const std::filesystem::path& file, const std::string& tensor, char byte) {
    write_safetensors(folder_ / file, {{tensor, DType::kU8, {3}, [byte](std::byte* destination, int64_t bytes) {
                                          std::memset(destination, byte, static_cast<size_t>(bytes));
                                        }}});
  }
  std::string refusal(bool weights_required = true) {
    try {
      ModelFolder folder(folder_, weights_required);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  std::filesystem::path root_, folder_;
};

TEST_F(Folder, OpensASingleFile) {
  put_tensor("model.safetensors", "w", 5);
  put("generation_config.json", R"({"eos_token_id": 2})");
  ModelFolder folder(folder_);
  EXPECT_TRUE(folder.has_weights());
  EXPECT_THAT(folder.names(), ElementsAre("w"));
  EXPECT_EQ(folder.total_bytes(), 3);
  EXPECT_EQ(folder.config()["model_type"], "llama");
  EXPECT_EQ((*folder.generation_config())["eos_token_id"], 2);
  EXPECT_EQ(std::to_integer<int>(folder.find("w")->data()[2]), 5);
  EXPECT_FALSE(folder.find("v"));
}

TEST_F(Folder, OpensShardsThroughTheIndex) {
  put_tensor("model-00001-of-00002.safetensors", "b", 1);
  put_tensor("model-00002-of-00002.safetensors", "a", 2);
  put("model.safetensors.index.json", R"({"metadata": {"total_size": 6}, "weight_map":
      {"b": "model-00001-of-00002.safetensors", "a": "model-00002-of-00002.safetensors"}})");
  ModelFolder folder(folder_);
  EXPECT_THAT(folder.names(), ElementsAre("a", "b"));
  EXPECT_EQ(folder.total_bytes(), 6);
  EXPECT_EQ(std::to_integer<int>(folder.find("a")->data()[0]), 2);
  ModelFolder moved = std::move(folder);
  EXPECT_EQ(std::to_integer<int>(moved.find("b")->data()[0]), 1);
}

TEST_F(Folder, RefusesFilesOutsideTheFolder) {
  put_tensor("../secret.safetensors", "a", 1);
  std::filesystem::create_directory(folder_ / "sub");
  put_tensor("sub/x.safetensors", "a", 1);
  const std::string absolute = (root_ / "secret.safetensors").string();
  for (const std::string& name : {std::string("../secret.safetensors"), absolute, std::string("sub/x.safetensors"),
                                  std::string(".."), std::string("..\\\\secret"), std::string("")}) {
    put("model.safetensors.index.json", R"({"weight_map": {"a": ")" + name + "\"}}");
    EXPECT_THAT(refusal(), HasSubstr("plain file name")) << name;
  }
}

TEST_F(Folder, RefusesAnIndexThatDoesNotFitItsShards) {
  put("model.safetensors.index.json", R"({"weight_map": {"a": "model-1.safetensors"}})");
  EXPECT_THAT(refusal(), HasSubstr("model-1.safetensors"));
  put_tensor("model-1.safetensors", "b", 1);
  EXPECT_THAT(refusal(), HasSubstr("'a' is not in model-1.safetensors"));
  for (const char* index : {"[]", "{}", R"({"weight_map": []})", R"({"weight_map": {"a": 1}})"}) {
    put("model.safetensors.index.json", index);
    EXPECT_NE(refusal(), "") << index;
  }
}

TEST_F(Folder, SaysWhatIsMissing) {
  EXPECT_THAT(refusal(), HasSubstr("model.safetensors"));
  EXPECT_EQ(refusal(false), "");
  put("pytorch_model.bin", "");
  EXPECT_THAT(refusal(), HasSubstr("pickled"));
  std::filesystem::remove(folder_ / "config.json");
  EXPECT_THAT(refusal(false), HasSubstr("config.json"));
  std::filesystem::remove_all(folder_);
  EXPECT_THAT(refusal(), HasSubstr("not a folder"));
}

// transformers 5 writes that of every T5, and leaves it to the weights whether the head is the embedding.
TEST_F(Folder, TakesAHeadThatIsNotScaledAndStoredForItsOwn) {
  const auto is_tied = [&](const char* config) {
    put("config.json", config);
    return ModelFolder(folder_).config().value("tie_word_embeddings", true);
  };
  constexpr const char* kUnscaled = R"({"tie_word_embeddings": true, "scale_decoder_outputs": false})";
  put_tensor("model.safetensors", "shared.weight", 5);
  EXPECT_TRUE(is_tied(kUnscaled)) << "there is no other head";
  put_tensor("model.safetensors", "lm_head.weight", 5);
  EXPECT_FALSE(is_tied(kUnscaled));
  EXPECT_TRUE(is_tied(R"({"tie_word_embeddings": true, "scale_decoder_outputs": true})"));
  EXPECT_TRUE(is_tied(R"({"tie_word_embeddings": true})"));
  put("config.json", kUnscaled);
  EXPECT_TRUE(ModelFolder(folder_ / "config.json", false).config().value("tie_word_embeddings", true))
      << "of config.json alone";
}

}  // namespace
}  // namespace fathom::weights
