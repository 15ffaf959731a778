// Odd, hostile and damaged tokenizer.json files and folders, and texts made to take long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "tests/tokenizer/adversarial.h"
#include "tokenizer/tokenizer_json.h"

namespace fathom::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

const fs::path kTokenizers = fs::path(FATHOM_SOURCE_DIR) / "tests" / "tokenizer";

// A folder with the tokenizer of Llama 3's kind, which a test may change.
class TokenizerJsonFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("fathom_tokenizer_json_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    json_ = read_json(kTokenizers / "llama3" / "tokenizer.json");
    config_ = read_json(kTokenizers / "llama3" / "tokenizer_config.json");
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<Tokenizer> open() {
    put("tokenizer.json", format_json(json_));
    put("tokenizer_config.json", format_json(config_));
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
  // What is said where one place of the file, by its JSON pointer, has this value.
  std::string refusal_with(const std::string& pointer, const std::string& value) {
    const Json before = json_;
    json_[Json::json_pointer(pointer)] = parse_json(value, "value");
    std::string said = refusal();
    json_ = before;
    return said;
  }
  void put(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary | std::ios::trunc) << text;
  }
  int32_t id_of(const std::string& token) {
    for (const Json& added : json_["added_tokens"]) {
      if (added["content"] == token) return added["id"].get<int32_t>();
    }
    return json_["model"]["vocab"].at(token).get<int32_t>();
  }

  fs::path folder_;
  Json json_, config_;
};

TEST_F(TokenizerJsonFolder, ReadsSpecialTokensAndFlags) {
  const auto tokenizer = open();
  EXPECT_EQ(tokenizer->bos_id, id_of("<|begin_of_text|>"));
  EXPECT_EQ(tokenizer->eos_id, id_of("<|eot_id|>"));
  EXPECT_FALSE(tokenizer->pad_id);
  EXPECT_TRUE(tokenizer->adds_bos);  // by the template
  EXPECT_FALSE(tokenizer->adds_eos);
  EXPECT_EQ(tokenizer->vocabulary_size(), 763);
  EXPECT_EQ(tokenizer->piece(id_of("\u0120memory")), "\u0120memory");
  EXPECT_EQ(tokenizer->token_bytes(id_of("\u0120memory")), " memory");
  EXPECT_EQ(tokenizer->token_bytes(*tokenizer->bos_id), "");
  // A model may have more rows than its tokenizer has tokens.
  EXPECT_EQ(tokenizer->piece(763), "<no token 763>");
  EXPECT_EQ(tokenizer->decode({763, -1}), "");
}

TEST_F(TokenizerJsonFolder, AddsBosAsTheConfigSaysBeforeTheTemplate) {
  config_["add_bos_token"] = false;
  EXPECT_FALSE(open()->adds_bos);
  config_["add_eos_token"] = true;
  EXPECT_TRUE(open()->adds_eos);
  config_.erase("add_bos_token");
  config_.erase("add_eos_token");
  config_.erase("bos_token");
  EXPECT_EQ(open()->bos_id, id_of("<|begin_of_text|>"));
  config_["bos_token"] = "<|end_of_text|>";
  EXPECT_THAT(refusal(), HasSubstr("post_processor adds '<|begin_of_text|>'"));
  json_["post_processor"] = nullptr;
  EXPECT_FALSE(open()->adds_bos);
}

TEST_F(TokenizerJsonFolder, TakesTokensOfTheConfig) {
  config_["added_tokens_decoder"] = {{"800", {{"content", "<late>"}, {"special", false}}}};
  const auto tokenizer = open();
  EXPECT_THAT(tokenizer->encode("<late>"), ElementsAre(800));
  EXPECT_EQ(tokenizer->vocabulary_size(), 801);
  config_["added_tokens_decoder"] = {{"3", {{"content", "<late>"}}}};
  EXPECT_THAT(refusal(), HasSubstr("the vocabulary calls this id"));
  config_.erase("added_tokens_decoder");
  config_["pad_token"] = "<nowhere>";
  EXPECT_THAT(refusal(), HasSubstr("pad_token '<nowhere>'"));
}

TEST_F(TokenizerJsonFolder, PutsABlankInFrontWhereAsked) {
  json_["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", true}};
  const auto tokenizer = open();
  EXPECT_EQ(tokenizer->encode("memory"), tokenizer->encode(" memory"));
  const Encoding encoding = tokenizer->encode_with_offsets("memory of");
  EXPECT_THAT(encoding.begins, ElementsAre(0, 6));
}

TEST_F(TokenizerJsonFolder, SplitsByOtherPatternsThroughOniguruma) {
  Json& splits = json_["pre_tokenizer"]["pretokenizers"];
  const auto usual = open()->encode("memory of 1234 weights");
  splits[0]["pattern"] = {{"Regex", "(?:" + splits[0]["pattern"]["Regex"].get<std::string>() + ")"}};
  EXPECT_EQ(open()->encode("memory of 1234 weights"), usual);
  splits[0] = {{"type", "Digits"}, {"individual_digits", true}};
  EXPECT_EQ(open()->encode("12"), (std::vector<int32_t>{id_of("1"), id_of("2")}));
  splits[0] = {{"type", "Split"}, {"pattern", {{"String", "."}}}, {"behavior", "Removed"}, {"invert", false}};
  EXPECT_EQ(open()->encode("1.2"), (std::vector<int32_t>{id_of("1"), id_of("2")}));
  splits[0]["invert"] = true;
  EXPECT_THAT(open()->encode("1.2"), ElementsAre(id_of(".")));
}

TEST_F(TokenizerJsonFolder, RefusesByName) {
  EXPECT_EQ(refusal(), "");
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"/model/type", R"("WordPiece")", "model.type: 'WordPiece'"},
      {"/model/dropout", "0.1", "model.dropout"},
      {"/model/end_of_word_suffix", R"("</w>")", "model.end_of_word_suffix"},
      {"/model/vocab", "[]", "model.vocab: expected an object"},
      {"/model/vocab/a", "-1", "'a': expected an id"},
      {"/model/vocab/a", "70000", "'a': expected an id below"},
      {"/model/vocab/a", "5", "two tokens have the id 5"},
      {"/model/merges", "{}", "model.merges: expected a list"},
      {"/model/merges/3", R"("a b c")", "model.merges[3]: expected"},
      {"/model/merges/3", R"(["a"])", "model.merges[3]: expected"},
      {"/model/merges/3", R"(["a", "\u4e00"])", "is not in the vocabulary"},
      {"/normalizer", R"({"type": "NFKD"})", "normalizer.type: 'NFKD'"},
      {"/normalizer", R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]})",
       "normalizer.normalizers[1].type: 'Lowercase'"},
      {"/pre_tokenizer", "null", "pre_tokenizer: expected an object"},
      {"/pre_tokenizer", R"({"type": "Metaspace"})", "pre_tokenizer.type: 'Metaspace'"},
      {"/pre_tokenizer/pretokenizers/0/behavior", R"("Merged")", "behavior: 'Merged'"},
      {"/pre_tokenizer/pretokenizers/0/pattern", R"({"Regex": "(a"})", "not a regular expression"},
      {"/pre_tokenizer/pretokenizers/1/add_prefix_space", "true", "add_prefix_space"},
      {"/pre_tokenizer/pretokenizers/1", R"({"type": "Digits"})", "does not end in ByteLevel"},
      {"/decoder", "null", "decoder: expected ByteLevel"},
      {"/decoder", R"({"type": "WordPiece"})", "decoder.type: 'WordPiece'"},
      {"/post_processor", R"({"type": "RobertaProcessing"})", "post_processor.cls: expected a list"},
      {"/added_tokens/0/id", "99999999", "the id is out of range"},
      {"/added_tokens/0/content", R"("")", "expected the text of a token"},
      {"/added_tokens/0/content", R"("a")", "added token 'a'"},
      {"/added_tokens/0/lstrip", "1", "lstrip: expected true or false"},
  };
  for (const auto& [pointer, value, said] : cases)
    EXPECT_THAT(refusal_with(pointer, value), HasSubstr(said)) << pointer;
  json_["model"]["vocab"].erase("a");
  json_["model"]["merges"] = Json::array();
  EXPECT_THAT(refusal(), HasSubstr("has no token for the byte 0x61, so that text would be lost"));
}

TEST_F(TokenizerJsonFolder, EncodesInSeveralThreads) {
  const auto tokenizer = open();
  const Adversarial strings;
  std::vector<std::thread> threads;
  std::vector<std::vector<std::vector<int32_t>>> results(4);
  for (auto& result : results) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < 500; ++i) result.push_back(tokenizer->encode(strings.make(i)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

// Megabytes without a border, where anything quadratic would take minutes.
TEST_F(TokenizerJsonFolder, TakesLongStretchesInTime) {
  const auto tokenizer = open();
  const auto start = std::chrono::steady_clock::now();
  for (const char* part : {"a", "ab", " ", "\n", " \n", "\t", "7", "<", "<|eot_id|", "[W][W", "<right> ", "\xCC\x81",
                           "\xFF", "\xE8\xAE\xB0", "e\xCC\x81", "'"}) {
    std::string text;
    while (text.size() < 1000000) text += part;
    const Encoding encoding = tokenizer->encode_with_offsets(text);
    EXPECT_EQ(encoding.ids.size(), encoding.begins.size());
    if (well_formed_prefix(text) == text.size() && std::string_view(part) != "<right> ") {
      EXPECT_EQ(tokenizer->decode(encoding.ids), text) << part;
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 60);
}

TEST_F(TokenizerJsonFolder, GivesUpOnPatternsThatExplode) {
  json_["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"Regex", "(?:a|aa)+(?<=b)|b"}};
  const auto tokenizer = open();
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("xab")), "xab");
  EXPECT_THROW(tokenizer->encode(std::string(5000, 'a')), Error);
}

// Damage by chance: refused with an Error, or opened and used, but nothing else.
TEST_F(TokenizerJsonFolder, SurvivesDamage) {
  json_["model"]["merges"].get_ref<Json::array_t&>().resize(20);  // so that damage meets the other parts, too
  const std::string whole = json_.dump();
  const Adversarial strings;
  SplitMix64 draw(11);
  int opened = 0;
  for (int round = 0; round < 1500; ++round) {
    const std::string text = damaged_json(whole, draw);
    put("tokenizer.json", text);
    try {
      const auto tokenizer = Tokenizer::open(folder_);
      tokenizer->decode(tokenizer->encode_with_offsets(strings.make(round)).ids);
      ++opened;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(opened, 10);
}

}  // namespace
}  // namespace fathom::tokenizer
