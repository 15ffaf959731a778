// Tokenizers as keys: lists, kinds, special tokens, and the names that llama.cpp has for splits.
#include "gguf/tokenizer_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "tokenizer/sentencepiece_model.h"

namespace fathom::gguf {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

const fs::path kTests = fs::path(FATHOM_SOURCE_DIR) / "tests" / "tokenizer";

class TokenizerKeysTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("fathom_gguf_keys_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    model_.eos_token_ids = {7, 8};
    model_.pad_token_id = 9;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void read(const fs::path& folder, int64_t vocabulary) {
    const weights::GgufKeys keys = tokenizer_keys(folder, model_, vocabulary);
    keys_ = {keys.begin(), keys.end()};
    ASSERT_EQ(keys_.size(), keys.size()) << "a key occurs twice";
  }
  template <typename T>
  const T& at(const std::string& key) const {
    return std::get<T>(keys_.at(key));
  }
  const std::string& token(int64_t id) const { return at<std::vector<std::string>>("tokenizer.ggml.tokens").at(id); }
  TokenKind kind(int64_t id) const {
    return static_cast<TokenKind>(at<std::vector<int32_t>>("tokenizer.ggml.token_type").at(id));
  }
  std::string refusal(const fs::path& folder, int64_t vocabulary = 1000) {
    try {
      tokenizer_keys(folder, model_, vocabulary);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  // The tokenizer of one of the tests, with one place of its file changed; the value is JSON.
  fs::path changed(const std::string& name, const std::string& pointer, const std::string& value) {
    Json json = read_json(kTests / name / "tokenizer.json");
    json[Json::json_pointer(pointer)] = parse_json(value, "value");
    put("tokenizer.json", format_json(json));
    fs::copy_file(kTests / name / "tokenizer_config.json", folder_ / "tokenizer_config.json",
                  fs::copy_options::overwrite_existing);
    return folder_;
  }
  void put(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }

  fs::path folder_;
  arch::Architecture model_;
  std::map<std::string, weights::GgufValue> keys_;
};

TEST_F(TokenizerKeysTest, ListByteLevelTokensWithTheirKinds) {
  read(kTests / "llama3", 770);
  EXPECT_EQ(at<std::string>("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(at<std::string>("tokenizer.ggml.pre"), "llama-bpe");
  EXPECT_EQ(token(0), "!");
  EXPECT_EQ(kind(0), TokenKind::kNormal);
  EXPECT_EQ(token(756), "<|begin_of_text|>");
  EXPECT_EQ(kind(756), TokenKind::kControl);
  EXPECT_EQ(token(759), "<left>");
  EXPECT_EQ(kind(759), TokenKind::kUserDefined);
  EXPECT_EQ(token(769), "[PAD769]");
  EXPECT_EQ(kind(769), TokenKind::kUnused);
  EXPECT_EQ(at<std::vector<std::string>>("tokenizer.ggml.tokens").size(), 770);
  EXPECT_EQ(at<std::vector<std::string>>("tokenizer.ggml.merges").front(), "ä ¸") << "a list of pairs in the file";
  EXPECT_EQ(at<uint32_t>("tokenizer.ggml.bos_token_id"), 756);
  EXPECT_EQ(at<uint32_t>("tokenizer.ggml.eos_token_id"), 758);
  EXPECT_EQ(at<uint32_t>("tokenizer.ggml.padding_token_id"), 9) << "config.json's, as the tokenizer names none";
  EXPECT_TRUE(at<bool>("tokenizer.ggml.add_bos_token"));
  EXPECT_FALSE(at<bool>("tokenizer.ggml.add_eos_token"));
  EXPECT_FALSE(keys_.contains("tokenizer.ggml.scores"));
  EXPECT_FALSE(keys_.contains("tokenizer.chat_template"));
}

TEST_F(TokenizerKeysTest, NameTheSplitsOfFamilies) {
  const auto name_of = [&](const fs::path& folder) {
    const fs::path file = folder / "tokenizer.json";
    return pre_tokenizer_name(read_json(file), file.string());
  };
  EXPECT_EQ(name_of(kTests / "gpt2"), "gpt-2");
  EXPECT_EQ(name_of(kTests / "qwen2"), "qwen2");
  EXPECT_EQ(name_of(kTests / "llama3"), "llama-bpe");
  EXPECT_EQ(name_of(changed("llama3", "/model/ignore_merges", "false")), "dbrx");
  EXPECT_EQ(name_of(changed("gpt2", "/pre_tokenizer", R"({"type": "Sequence", "pretokenizers": [
      {"type": "Digits", "individual_digits": true},
      {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}]})")),
            "smollm");
}

TEST_F(TokenizerKeysTest, RefuseSplitsThatLlamaCppHasNoNameFor) {
  const auto has_no_name = HasSubstr("pre_tokenizer: llama.cpp has no name for these splits");
  EXPECT_THAT(refusal(changed("qwen2", "/model/ignore_merges", "true")),
              AllOf(has_no_name, HasSubstr("ignore_merges")));
  EXPECT_THAT(refusal(changed("llama3", "/pre_tokenizer/pretokenizers/0/pattern/Regex", R"("\\p{N}{1,2}|.")")),
              has_no_name);
  EXPECT_THAT(refusal(changed("gpt2", "/pre_tokenizer/add_prefix_space", "true")), has_no_name);
  EXPECT_THAT(refusal(changed("gpt2", "/normalizer", R"({"type": "Lowercase"})")), HasSubstr("normalizer"));
}

// A tokenizer.json over characters has no scores: those are in the tokenizer.model beside it.
TEST_F(TokenizerKeysTest, TakeScoresFromTheModelBesideTheJson) {
  EXPECT_THAT(refusal(kTests / "published" / "llama2"),
              AllOf(HasSubstr("tokenizer.json: llama.cpp merges"), HasSubstr("put the tokenizer.model")));
  fs::copy(kTests / "fixture", folder_);
  fs::copy_file(kTests / "published" / "gemma2" / "tokenizer.json", folder_ / "tokenizer.json");
  fs::remove(folder_ / "tokenizer_config.json");
  fs::remove(folder_ / "special_tokens_map.json");
  EXPECT_THAT(refusal(folder_), HasSubstr("tokenizer.model: piece 0 is '<unk>', but tokenizer.json has '<pad>'"));
  Json json = read_json(kTests / "published" / "llama2" / "tokenizer.json");
  const tokenizer::SentencePieceModel model = tokenizer::read_sentencepiece_model(folder_ / "tokenizer.model");
  json["model"]["vocab"] = Json::object();
  for (size_t id = 0; id < model.pieces.size(); ++id) json["model"]["vocab"][model.pieces[id]] = id;
  json["model"]["merges"] = Json::array();
  json["added_tokens"].push_back({{"id", 800}, {"content", "<|user|>"}, {"rstrip", true}, {"special", true}});
  put("tokenizer.json", format_json(json));
  read(folder_, 803);
  EXPECT_EQ(at<std::string>("tokenizer.ggml.model"), "llama");
  EXPECT_EQ(at<std::vector<float>>("tokenizer.ggml.scores")[300], model.scores[300]);
  EXPECT_EQ(token(800), "<|user|>");
  EXPECT_EQ(kind(800), TokenKind::kControl);
  EXPECT_TRUE(at<bool>("tokenizer.ggml.add_space_prefix"));
  json["normalizer"] = json["normalizer"]["normalizers"][1];  // without Prepend
  put("tokenizer.json", format_json(json));
  read(folder_, 803);
  EXPECT_FALSE(at<bool>("tokenizer.ggml.add_space_prefix"));
}

TEST_F(TokenizerKeysTest, ListSentencePiecesWithScores) {
  read(kTests / "fixture", 803);
  EXPECT_EQ(at<std::string>("tokenizer.ggml.model"), "llama");
  EXPECT_EQ(at<std::string>("tokenizer.ggml.pre"), "default");
  EXPECT_EQ(token(1), "<s>");
  EXPECT_EQ(kind(1), TokenKind::kControl);
  EXPECT_EQ(token(3), "<0x00>");
  EXPECT_EQ(kind(3), TokenKind::kByte);
  EXPECT_EQ(kind(800), TokenKind::kControl) << "<pad>, special";
  EXPECT_EQ(token(801), "[INST]");
  EXPECT_EQ(kind(801), TokenKind::kUserDefined);
  EXPECT_EQ(kind(802), TokenKind::kUnused);
  const auto& scores = at<std::vector<float>>("tokenizer.ggml.scores");
  ASSERT_EQ(scores.size(), 803);
  EXPECT_EQ(scores[801], -1000);
  EXPECT_EQ(scores[802], -10000);
  EXPECT_EQ(scores[300], scores[299] - 1) << "pieces in the order of their merges";
  EXPECT_TRUE(at<bool>("tokenizer.ggml.add_space_prefix"));
  EXPECT_EQ(at<uint32_t>("tokenizer.ggml.padding_token_id"), 800);
  EXPECT_FALSE(keys_.contains("tokenizer.ggml.merges"));
}

TEST_F(TokenizerKeysTest, HoldChatTemplates) {
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) {
    fs::copy_file(kTests / "qwen2" / file, folder_ / file);
  }
  put("chat_template.jinja", "{{ messages }}");
  fs::create_directories(folder_ / "additional_chat_templates");
  put("additional_chat_templates/tool_use.jinja", "{{ tools }}");
  read(folder_, 761);
  EXPECT_EQ(at<std::string>("tokenizer.chat_template"), "{{ messages }}");
  EXPECT_EQ(at<std::string>("tokenizer.chat_template.tool_use"), "{{ tools }}");
  EXPECT_THAT(at<std::vector<std::string>>("tokenizer.chat_templates"), ::testing::ElementsAre("tool_use"));
  EXPECT_EQ(at<uint32_t>("tokenizer.ggml.eos_token_id"), 758);
  EXPECT_FALSE(at<bool>("tokenizer.ggml.add_bos_token"));
}

TEST_F(TokenizerKeysTest, SayThatThereIsNoTokenizer) {
  read(folder_, 10);
  EXPECT_EQ(keys_.size(), 1);
  EXPECT_EQ(at<std::string>("tokenizer.ggml.model"), "none");
}

TEST_F(TokenizerKeysTest, RefuseMoreTokensThanRows) {
  EXPECT_THAT(refusal(kTests / "qwen2", 760), HasSubstr("has the id 760, but the embedding has 760 rows"));
}

TEST_F(TokenizerKeysTest, ListT5sPiecesAndSentinels) {
  const std::unique_ptr<tokenizer::Tokenizer> tokenizer = tokenizer::Tokenizer::open(kTests / "t5");
  const int64_t size = tokenizer->vocabulary_size(), pieces = size - 100;
  read(kTests / "t5", size + 4);
  EXPECT_EQ(at<std::string>("tokenizer.ggml.model"), "t5");
  EXPECT_EQ(token(2), "<unk>");
  EXPECT_EQ(kind(2), TokenKind::kUnknown);
  EXPECT_EQ(kind(1), TokenKind::kControl);
  EXPECT_EQ(kind(pieces - 1), TokenKind::kNormal);
  EXPECT_EQ(token(pieces), "<extra_id_99>");
  EXPECT_EQ(kind(size - 1), TokenKind::kControl);
  EXPECT_EQ(kind(size), TokenKind::kUnused);
  EXPECT_FALSE(at<std::vector<uint8_t>>("tokenizer.ggml.precompiled_charsmap").empty());
  EXPECT_TRUE(at<bool>("tokenizer.ggml.add_space_prefix"));
  EXPECT_TRUE(at<bool>("tokenizer.ggml.remove_extra_whitespaces"));
  EXPECT_TRUE(at<bool>("tokenizer.ggml.add_eos_token"));
  EXPECT_FALSE(at<bool>("tokenizer.ggml.add_bos_token"));
  EXPECT_EQ(at<uint32_t>("tokenizer.ggml.eos_token_id"), 1);
}

TEST_F(TokenizerKeysTest, RefuseUnigramUnderAnotherName) {
  fs::copy_file(kTests / "t5" / "spiece.model", folder_ / "tokenizer.model");
  put("tokenizer_config.json", R"({"add_bos_token": false})");
  EXPECT_THAT(refusal(folder_), HasSubstr("model_type"));
}

TEST(TokenKind, IsControlForWhatLooksSpecial) {
  EXPECT_EQ(kind_of_added("<s>", true), TokenKind::kControl);
  EXPECT_EQ(kind_of_added("<|fim_prefix|>", false), TokenKind::kControl);
  EXPECT_EQ(kind_of_added("<tool_call>", false), TokenKind::kUserDefined);
}

}  // namespace
}  // namespace fathom::gguf
