// Byte-pair encoding over characters: odd and damaged files, places of tokens, long texts, decoding as ids come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "tests/tokenizer/adversarial.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer.h"

namespace fathom::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

const fs::path kPublished = fs::path(FATHOM_SOURCE_DIR) / "tests" / "tokenizer" / "published";

class CharacterModelFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("fathom_character_model_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    json_ = read_json(kPublished / "llama2" / "tokenizer.json");
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<Tokenizer> open() { return open(json_.dump()); }
  std::unique_ptr<Tokenizer> open(const std::string& text) {
    std::ofstream(folder_ / "tokenizer.json", std::ios::binary | std::ios::trunc) << text;
    return Tokenizer::open(folder_);
  }
  std::string refusal() {
    try {
      open();
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  std::string refusal_with(const std::string& pointer, const std::string& value) {
    const Json before = json_;
    json_[Json::json_pointer(pointer)] = parse_json(value, "value");
    std::string said = refusal();
    json_ = before;
    return said;
  }
  // A model of these letters and their merges, without byte_fallback.
  void put_letters(const std::vector<std::string>& tokens, const std::vector<std::string>& merges) {
    json_["model"]["vocab"] = Json::object();
    for (const std::string& token : tokens) json_["model"]["vocab"].emplace(token, json_["model"]["vocab"].size());
    json_["model"]["merges"] = merges;
    json_["model"]["byte_fallback"] = false;
    json_["added_tokens"] = Json::array();
    json_["post_processor"] = nullptr;
  }

  fs::path folder_;
  Json json_;
};

TEST_F(CharacterModelFile, RefusesByName) {
  EXPECT_EQ(refusal(), "");
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"/model/unk_token", R"("<nowhere>")", "model.unk_token: '<nowhere>' is not in the vocabulary"},
      {"/model/unk_token", "7", "model.unk_token: expected a text"},
      {"/model/fuse_unk", "1", "model.fuse_unk: expected true or false"},
      {"/model/byte_fallback", R"("yes")", "model.byte_fallback: expected true or false"},
      {"/model/ignore_merges", "0", "model.ignore_merges: expected true or false"},
      {"/model/type", R"("WordLevel")", "model.type: 'WordLevel' is not supported"},
      {"/normalizer/normalizers/0/prepend", "null", "normalizers[0].prepend: expected a text"},
      {"/pre_tokenizer", R"({"type": "Whitespace"})", "pre_tokenizer.type: 'Whitespace' is not supported"},
      {"/pre_tokenizer",
       R"({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithNext", "invert": true})",
       "behavior: 'MergedWithNext' with invert is not supported"},
      {"/decoder", "null", "decoder: expected ByteLevel, Metaspace, or Replace"},
      {"/decoder", R"({"type": "Metaspace", "replacement": "▁"})", "has no ByteFallback"},
      {"/decoder", R"({"type": "WordPiece"})", "decoder.type: 'WordPiece' is not supported"},
      {"/decoder/decoders/0/pattern", R"({"Regex": "▁"})", "decoders[0].pattern: expected {\"String\""},
      {"/decoder/decoders/1", R"({"type": "Fuse"})", "has no ByteFallback"},
      {"/decoder/decoders/2", R"({"type": "Metaspace", "replacement": "▁"})", "is not supported behind ByteFallback"},
      {"/decoder/decoders/3/start", "2", "decoders[3]: Strip is supported"},
      {"/decoder/decoders/3/stop", "1", "decoders[3]: Strip is supported"},
  };
  for (const auto& [pointer, value, said] : cases)
    EXPECT_THAT(refusal_with(pointer, value), HasSubstr(said)) << pointer << " " << value;
  json_["model"]["vocab"].erase("<0x41>");
  EXPECT_EQ(refusal(), "");  // there is an unknown token
  json_["model"]["unk_token"] = nullptr;
  EXPECT_THAT(refusal(), HasSubstr("there is no unk_token, and byte_fallback lacks tokens for bytes"));
  json_["model"]["byte_fallback"] = false;
  EXPECT_THAT(refusal(), HasSubstr("there is no unk_token, and no byte_fallback"));
}

// As Hugging Face's tokenizers 0.23.3: unknown characters are one token where fuse_unk says so.
TEST_F(CharacterModelFile, FusesUnknownCharacters) {
  put_letters({"<unk>", "a", "b", "ab", "\u2581"}, {"a b"});
  EXPECT_THAT(open()->encode("xyabzzb"), ElementsAre(4, 0, 3, 0, 2));
  json_["model"]["fuse_unk"] = false;
  const Encoding encoding = open()->encode_with_offsets("xéab");
  EXPECT_THAT(encoding.ids, ElementsAre(4, 0, 0, 3));
  EXPECT_THAT(encoding.begins, ElementsAre(0, 0, 1, 3));
}

// A word that is a token is that token, though no merge makes it; words are what the pre_tokenizer leaves.
TEST_F(CharacterModelFile, TakesWholeWordsWhereMergesAreIgnored) {
  put_letters({"<unk>", "a", "b", "\u2581", "\u2581ab", "\u2581ab\u2581ab"}, {});
  json_["model"]["ignore_merges"] = true;
  EXPECT_THAT(open()->encode("ab"), ElementsAre(4));
  EXPECT_THAT(open()->encode("ab ab"), ElementsAre(5));
  EXPECT_THAT(open()->encode("ab ab ab"), ElementsAre(3, 1, 2, 3, 1, 2, 3, 1, 2));
  json_["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "never"}};
  EXPECT_THAT(open()->encode("ab ab ab"), ElementsAre(4, 4, 4));
}

// A file of 2020 names no type; a model over characters may have merges of the tokens of bytes.
TEST_F(CharacterModelFile, ReadsFilesWithoutAType) {
  const auto usual = open()->encode("memory of 12 weights é \u6f22");
  json_["model"].erase("type");
  EXPECT_EQ(open()->encode("memory of 12 weights é \u6f22"), usual);
  json_["model"]["vocab"]["<0xE6><0xBC>"] = 719;
  json_["model"]["merges"].push_back("<0xE6> <0xBC>");
  json_["model"]["merges"].push_back("\u2581 \u2581");
  json_["model"]["vocab"]["\u2581\u2581"] = 720;
  EXPECT_THAT(open()->encode("\u6f22"), ElementsAre(::testing::_, 719, ::testing::_));
  json_["model"].erase("merges");
  EXPECT_THAT(refusal(), HasSubstr("model.type: 'WordLevel' is not supported"));
}

TEST_F(CharacterModelFile, DecodesAsIdsCome) {
  for (const char* name : {"llama2", "mistral3", "gemma2", "phi3_saved", "gemma2_saved"}) {
    const auto tokenizer = Tokenizer::open(kPublished / name);
    const Adversarial strings;
    for (uint64_t i = 0; i < 300; ++i) {
      const auto ids = tokenizer->encode(strings.make(i));
      StreamDecoder decoder(*tokenizer);
      std::string text;
      for (const int32_t id : ids) text += decoder.push(id);
      EXPECT_EQ(text + decoder.finish(), tokenizer->decode(ids)) << name << " " << i;
    }
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("two  blanks, \u6f22\U0001f642 é")),
              "two  blanks, \u6f22\U0001f642 é");
  }
}

// Hundreds of thousands of letters without a border, where anything quadratic would take minutes.
TEST_F(CharacterModelFile, TakesLongStretchesInTime) {
  const auto tokenizer = open();
  const auto start = std::chrono::steady_clock::now();
  for (const char* part : {"a", "ab", " ", "\n", "memory of ", "\u2581", "\u6f22", "\U0001f642", "<s", "\xFF"}) {
    std::string text = "x";
    while (text.size() < 300000) text += part;
    const Encoding encoding = tokenizer->encode_with_offsets(text);
    EXPECT_EQ(encoding.ids, tokenizer->encode(text));
    EXPECT_TRUE(std::is_sorted(encoding.begins.begin(), encoding.begins.end()));
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 20);
}

// Damage by chance: refused with an Error, or opened and used, but nothing else.
TEST_F(CharacterModelFile, SurvivesDamage) {
  json_["model"]["merges"].get_ref<Json::array_t&>().resize(20);  // so that damage meets the other parts, too
  const std::string whole = json_.dump();
  const Adversarial strings;
  SplitMix64 draw(13);
  int opened = 0;
  for (int round = 0; round < 1000; ++round) {
    const std::string text = damaged_json(whole, draw);
    try {
      const auto tokenizer = open(text);
      tokenizer->decode(tokenizer->encode_with_offsets(strings.make(round)).ids);
      ++opened;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(opened, 10);
}

// Bytes that UTF-8 does not have are missed by nobody; others would lose text, or are told of.
TEST_F(CharacterModelFile, TellsWhichBytesAreMissing) {
  json_ = read_json(kPublished / "granite3" / "tokenizer.json");
  ::testing::internal::CaptureStderr();
  const auto tokenizer = open();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("has no token for the byte 0xF1: it is left out"));
  const Encoding encoding = tokenizer->encode_with_offsets("a\U00050000b");  // F1 90 80 80
  EXPECT_EQ(encoding.ids.size(), 5u);
  EXPECT_THAT(encoding.begins, ElementsAre(0, 2, 3, 4, 5));
  for (const char* token : {"\u00e2", "\u00c1", "!"}) json_["model"]["vocab"].erase(token);
  json_["model"]["merges"] = Json::array();
  EXPECT_THAT(refusal(), HasSubstr("has no token for the byte 0x21, 0xE2, so that text would be lost"));
}

}  // namespace
}  // namespace fathom::tokenizer
