// Token ids against those of transformers' LlamaTokenizer (golden.json, from scripts/golden/tokenizer.py), and odd
// folders.
#include "tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <random>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"

namespace fathom::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

const fs::path kTests = fs::path(FATHOM_SOURCE_DIR) / "tests" / "tokenizer";

// A copy of the fixture that a test may spoil.
class TokenizerFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("fathom_tokenizer_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::copy(kTests / "fixture", folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void put(const std::string& name, const std::string& text) {
    fs::remove(folder_ / name);
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  // Replaces one key of tokenizer_config.json, read as JSON; the other files but the model go.
  void configure(const std::string& key, const std::string& value) {
    Json config = read_json(kTests / "fixture" / "tokenizer_config.json");
    config[key] = parse_json(value, "value");
    put("tokenizer_config.json", format_json(config));
    fs::remove(folder_ / "special_tokens_map.json");
  }
  std::string refusal() {
    try {
      Tokenizer::open(folder_);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  fs::path folder_;
};

TEST(Tokenizer, GivesTheIdsOfTransformers) {
  const auto tokenizer = Tokenizer::open(kTests / "fixture");
  const Json golden = read_json(kTests / "golden.json");
  ASSERT_GT(golden["cases"].size(), 200u);
  for (const Json& test : golden["cases"]) {
    const auto text = test["text"].get<std::string>();
    const auto ids = test["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer->encode(text), ids) << test["text"];
    if (!test["decoded"].is_null()) {
      EXPECT_EQ(tokenizer->decode(ids), test["decoded"].get<std::string>()) << test["text"];
    }
  }
}

TEST(Tokenizer, ReadsSpecialTokensAndFlags) {
  const auto tokenizer = Tokenizer::open(kTests / "fixture");
  EXPECT_EQ(tokenizer->unk_id, 0);
  EXPECT_EQ(tokenizer->bos_id, 1);
  EXPECT_EQ(tokenizer->eos_id, 2);
  EXPECT_EQ(tokenizer->pad_id, 800);
  EXPECT_TRUE(tokenizer->adds_bos);
  EXPECT_FALSE(tokenizer->adds_eos);
  EXPECT_EQ(tokenizer->vocabulary_size(), 802);
  EXPECT_EQ(tokenizer->piece(2), "</s>");
  EXPECT_EQ(tokenizer->piece(801), "[INST]");
  EXPECT_THROW(tokenizer->piece(802), Error);
  EXPECT_THROW(tokenizer->piece(-1), Error);
  EXPECT_THROW(tokenizer->decode({5, 802}), Error);
}

TEST(Tokenizer, GivesBackAnyText) {
  const auto tokenizer = Tokenizer::open(kTests / "fixture");
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (uint32_t length = random() % 20; length > 0; --length) {
      static const std::vector<std::string> kLetters = {"a",  "Z",    "7", " ",      "\n", "é",
                                                        "日", "🙂", "<", "memory", "."};
      text += kLetters[random() % kLetters.size()];
    }
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

TEST(Tokenizer, KeepsBlanksBesideAddedTokens) {
  const auto tokenizer = Tokenizer::open(kTests / "fixture");
  for (const char* text : {"[INST] memory [/INST]", "a[INST]b", "a [INST]  b", "[INST][INST]"}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

TEST(Tokenizer, EncodesBytesThatAreNotUtf8WithoutHarm) {
  const auto tokenizer = Tokenizer::open(kTests / "fixture");
  for (const char* text : {"\xff", "a\xc3", "\xe2\x96", "\xed\xa0\x80", "\xf8\x88\x80\x80\x80"}) {
    for (int32_t id : tokenizer->encode(text)) EXPECT_LT(id, 802);
  }
}

// Long texts go to SentencePiece in stretches, which must not show.
TEST(Tokenizer, GivesTheSameIdsInStretches) {
  sentencepiece::SentencePieceProcessor model;
  ASSERT_TRUE(model.Load((kTests / "fixture" / "tokenizer.model").string()).ok());
  const auto tokenizer = Tokenizer::open(kTests / "fixture");
  const std::vector<std::string> letters = {"a", "Z", "7", " ", "  ", "\n", "é", "日", "🙂", "<", "memory", ". The"};
  std::mt19937 random(4);
  for (const size_t kinds : {letters.size(), size_t{4}, size_t{1}}) {
    std::string text = "x";
    while (text.size() < 300'000) text += letters[random() % kinds];
    EXPECT_EQ(tokenizer->encode(text), model.EncodeAsIds(text)) << kinds;
    const Encoding encoding = tokenizer->encode_with_offsets(text);
    EXPECT_TRUE(std::is_sorted(encoding.begins.begin(), encoding.begins.end()));
    EXPECT_EQ(tokenizer->decode(encoding.ids), text) << kinds;
  }
}

TEST(Tokenizer, RefusesALongTextWithoutABorder) {
  const auto tokenizer = Tokenizer::open(kTests / "fixture");
  try {
    tokenizer->encode(std::string(5'000'000, ' '));
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("has no place in its first 4194304 to cut it at"));
  }
}

TEST_F(TokenizerFolder, ManyAddedTokensTakeNoMoreTimeThanFew) {
  const std::string text(200'000, '[');  // where each of them may begin
  const auto seconds = [&](int tokens) {
    Json added = Json::object();
    for (int i = 0; i < tokens; ++i) added["[" + std::to_string(i) + "]"] = 802 + i;
    put("added_tokens.json", format_json(added));
    const auto tokenizer = Tokenizer::open(folder_);
    double best = std::numeric_limits<double>::infinity();
    for (int round = 0; round < 3; ++round) {
      const auto start = std::chrono::steady_clock::now();
      tokenizer->encode(text);
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
  };
  EXPECT_LT(seconds(20'000), 5 * seconds(2));
}

TEST_F(TokenizerFolder, WorksFromTheModelAlone) {
  fs::remove(folder_ / "tokenizer_config.json");
  fs::remove(folder_ / "special_tokens_map.json");
  const auto tokenizer = Tokenizer::open(folder_);
  EXPECT_EQ(tokenizer->bos_id, 1);
  EXPECT_EQ(tokenizer->eos_id, 2);
  EXPECT_FALSE(tokenizer->pad_id);
  EXPECT_TRUE(tokenizer->adds_bos);
  EXPECT_EQ(tokenizer->vocabulary_size(), 800);
  EXPECT_THAT(tokenizer->encode("</s>"), ElementsAre(2));
}

TEST_F(TokenizerFolder, TakesFlagsAndNamesFromTheConfig) {
  configure("add_eos_token", "true");
  EXPECT_TRUE(Tokenizer::open(folder_)->adds_eos);
  configure("add_bos_token", "false");
  EXPECT_FALSE(Tokenizer::open(folder_)->adds_bos);
  configure("eos_token", R"({"__type": "AddedToken", "content": "[INST]", "lstrip": false})");
  EXPECT_EQ(Tokenizer::open(folder_)->eos_id, 801);
  configure("pad_token", "null");
  EXPECT_FALSE(Tokenizer::open(folder_)->pad_id);
  configure("additional_special_tokens", R"(["[INST]"])");
  const auto tokenizer = Tokenizer::open(folder_);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("[INST]memory")), "memory");
}

TEST_F(TokenizerFolder, RefusesWhatItWouldEncodeDifferently) {
  EXPECT_EQ(refusal(), "");
  configure("tokenizer_class", R"("T5Tokenizer")");
  EXPECT_THAT(refusal(), HasSubstr("T5Tokenizer"));
  configure("added_tokens_decoder", R"({"2": {"content": "<eos>"}})");
  EXPECT_THAT(refusal(), HasSubstr("'</s>'"));
  configure("added_tokens_decoder", R"({"800": {"content": "<pad>"}, "801": {"content": "<pad>"}})");
  EXPECT_THAT(refusal(), HasSubstr("contradicts"));
  for (const char* key : {"-1", "x", "99999999", "800000000000000000000", ""}) {
    configure("added_tokens_decoder", std::string("{\"") + key + R"(": {"content": "<pad>"}})");
    EXPECT_NE(refusal(), "") << key;
  }
  configure("pad_token", R"("[PAD]")");
  EXPECT_THAT(refusal(), HasSubstr("[PAD]"));
  configure("add_bos_token", "1");
  EXPECT_THAT(refusal(), HasSubstr("add_bos_token"));
  configure("split_special_tokens", "true");
  EXPECT_THAT(refusal(), HasSubstr("split_special_tokens"));
  configure("bos_token", R"("</s>")");
  put("special_tokens_map.json", R"({"bos_token": "<s>"})");
  EXPECT_THAT(refusal(), HasSubstr("contradicts"));
}

TEST_F(TokenizerFolder, SaysWhatIsMissing) {
  fs::remove(folder_ / "tokenizer.model");
  EXPECT_THAT(refusal(), HasSubstr("no tokenizer.json, no tokenizer.model and no spiece.model"));
  put("tokenizer.json", "{}");
  EXPECT_THAT(refusal(), HasSubstr("tokenizer.json: expected an object with a model"));
}

// What the library throws, of a piece without bytes, ends as an Error too.
TEST_F(TokenizerFolder, RefusesPiecesThatTheLibraryCannotHold) {
  fs::remove(folder_ / "tokenizer.model");
  const fs::path seeds = fs::path(FATHOM_SOURCE_DIR) / "tests" / "fuzz" / "seeds" / "sentencepiece";
  fs::copy_file(seeds / "piece_of_no_bytes.model", folder_ / "tokenizer.model");
  EXPECT_THAT(refusal(), HasSubstr("tokenizer.model: not a SentencePiece model"));
}

TEST_F(TokenizerFolder, PrefersTokenizerJson) {
  fs::remove(folder_ / "tokenizer_config.json");
  fs::remove(folder_ / "special_tokens_map.json");
  fs::copy(kTests / "gpt2" / "tokenizer.json", folder_);
  EXPECT_EQ(Tokenizer::open(folder_)->vocabulary_size(), 757);
  put("tokenizer.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  EXPECT_EQ(Tokenizer::open(folder_)->vocabulary_size(), 800);
}

TEST_F(TokenizerFolder, NamesOtherKindsOfTokenizers) {
  put("tokenizer.model", "IQ== 0\nIg== 1\n");
  EXPECT_THAT(refusal(), HasSubstr("tokenizer.model: is tiktoken's list of tokens, not a SentencePiece model"));
  fs::remove(folder_ / "tokenizer.model");
  for (const char* file : {"tekken.json", "vocab.txt", "merges.txt"}) {
    put(file, "");
    EXPECT_THAT(refusal(), HasSubstr(std::string("its tokenizer is in ") + file));
    EXPECT_FALSE(Tokenizer::is_in(folder_));
    fs::remove(folder_ / file);
  }
}

TEST_F(TokenizerFolder, MatchesAddedTokensByTheirFlags) {
  configure("added_tokens_decoder", R"({"800": {"content": "<pad>", "rstrip": true, "special": true},
                                        "801": {"content": "[INST]", "lstrip": true},
                                        "802": {"content": "need", "single_word": true}})");
  const auto tokenizer = Tokenizer::open(folder_);
  EXPECT_THAT(tokenizer->encode("<pad> \n<pad>\t "), ElementsAre(800, 800));
  EXPECT_EQ(tokenizer->encode("a \n [INST]"), tokenizer->encode("a[INST]"));
  EXPECT_THAT(tokenizer->encode("need"), ::testing::Contains(802));
  EXPECT_THAT(tokenizer->encode("needs"), ::testing::Not(::testing::Contains(802)));
  // Also where only the names of special tokens say how they match.
  put("tokenizer_config.json", R"({"eos_token": {"content": "</s>", "rstrip": true}})");
  EXPECT_EQ(Tokenizer::open(folder_)->encode("</s>  \n"), std::vector<int32_t>{2});
}

// Which puts a blank in front: the class, else the model itself.
TEST_F(TokenizerFolder, TakesThePrefixFromTheClassOrTheModel) {
  const auto first_piece = [&](const char* name) {
    configure("tokenizer_class", name);
    const auto tokenizer = Tokenizer::open(folder_);
    return tokenizer->piece(tokenizer->encode("memory").front());
  };
  const std::vector<const char*> others = {"null", R"("GemmaTokenizer")", R"("GemmaTokenizerFast")",
                                           R"("TokenizersBackend")", R"("PreTrainedTokenizerFast")"};
  const std::vector<const char*> llamas = {R"("LlamaTokenizer")", R"("LlamaTokenizerFast")", R"("CodeLlamaTokenizer")"};
  for (const char* name : others) EXPECT_THAT(first_piece(name), ::testing::StartsWith("\u2581")) << name;
  for (const char* name : llamas) EXPECT_THAT(first_piece(name), ::testing::StartsWith("\u2581")) << name;
  const std::string model = read_file(kTests / "fixture" / "tokenizer.model");
  put("tokenizer.model", model + std::string("\x1a\x02\x18\x00", 4));  // add_dummy_prefix: false
  for (const char* name : others) EXPECT_THAT(first_piece(name), ::testing::StartsWith("m")) << name;
  for (const char* name : llamas) EXPECT_THAT(first_piece(name), ::testing::StartsWith("\u2581")) << name;
  configure("add_prefix_space", "false");
  EXPECT_EQ(Tokenizer::open(folder_)->token_bytes(Tokenizer::open(folder_)->encode("memory").front())[0], 'm');
}

TEST(Tokenizer, GivesThePlacesOfTokens) {
  const auto tokenizer = Tokenizer::open(kTests / "fixture");
  const std::string text = "memory é[INST]\u2581needs \u65e5</s>  x";
  const Encoding encoding = tokenizer->encode_with_offsets(text);
  EXPECT_EQ(encoding.ids, tokenizer->encode(text));
  ASSERT_EQ(encoding.begins.size(), encoding.ids.size());
  EXPECT_TRUE(std::is_sorted(encoding.begins.begin(), encoding.begins.end()));
  // What tokens decode to, put back at their places, is the text. Bytes of one character begin where it does.
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    std::string bytes = tokenizer->token_bytes(encoding.ids[i]);
    if (i == 0) bytes.erase(0, 1);  // the blank that encoding puts in front
    if (bytes.size() < 2) continue;
    const std::string there = text.substr(encoding.begins[i]);
    EXPECT_TRUE(there.starts_with(bytes) || there.starts_with("\u2581" + bytes.substr(1))) << i << " " << bytes;
  }
  const auto end = std::find(encoding.ids.begin(), encoding.ids.end(), 2);
  ASSERT_NE(end, encoding.ids.end());
  EXPECT_EQ(encoding.begins[end - encoding.ids.begin()], static_cast<int64_t>(text.find("</s>")));
}

TEST_F(TokenizerFolder, RefusesDamagedModels) {
  const std::string model = read_file(kTests / "fixture" / "tokenizer.model");
  put("tokenizer.model", "");
  EXPECT_NE(refusal(), "");
  put("tokenizer.model", "not a model");
  EXPECT_NE(refusal(), "");
  put("tokenizer.model", model.substr(0, model.size() / 2));
  refusal();
}

}  // namespace
}  // namespace fathom::tokenizer
