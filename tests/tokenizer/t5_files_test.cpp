// Odd, hostile and damaged files of T5's: tokenizer.json with a Unigram model, and spiece.model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "base/file.h"
#include "base/json_value.h"
#include "tests/tokenizer/adversarial.h"
#include "tests/tokenizer/t5_folder.h"
#include "tokenizer/character_map.h"

namespace fathom::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class T5Files : public T5Folder {
 protected:
  std::string refusal() {
    return refusal_of([this] { open(); });
  }
  // What is said where one place of tokenizer.json, by its JSON pointer, has this value.
  std::string refusal_with(const std::string& pointer, const std::string& value) {
    const Json before = json_;
    json_[Json::json_pointer(pointer)] = parse_json(value, "value");
    std::string said = refusal();
    json_ = before;
    return said;
  }
  std::string spiece_refusal(const std::string& model) {
    put("spiece.model", model);
    return refusal_of([this] { Tokenizer::open(folder_); });
  }
  void configure(const std::string& key, const Json& value) {
    Json config = read_json(kT5 / "tokenizer_config.json");
    config[key] = value;
    put("tokenizer_config.json", format_json(config));
  }
  // The table of characters that maps "a" to what stands at `value` of the texts: a root whose children begin at unit
  // 256, the unit that "a" leads to, whose children begin at 128, and its value there.
  static std::string table(uint32_t value, const std::string& texts) {
    std::vector<uint32_t> units(512);
    units[0] = 256u << 10;
    units[256 ^ 'a'] = (256u ^ 'a' ^ 128u) << 10 | 1u << 8 | 'a';
    units[128] = 1u << 31 | value;
    std::string bytes = number(static_cast<uint32_t>(units.size() * 4));
    for (const uint32_t unit : units) bytes += number(unit);
    return bytes + texts;
  }
  static std::string number(uint32_t value) {
    std::string bytes;
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(static_cast<unsigned char>(value >> 8 * i));
    return bytes;
  }

  const std::string spiece_ = read_file(kT5 / "spiece.model");
};

TEST_F(T5Files, RefusesByName) {
  EXPECT_EQ(refusal(), "");
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"/model/byte_fallback", "true", "model.byte_fallback: true is not supported"},
      {"/model/byte_fallback", "1", "model.byte_fallback: expected true or false"},
      {"/model/unk_id", "null", "model.unk_id: expected the id of one of the 1100 tokens"},
      {"/model/unk_id", "1100", "model.unk_id: expected"},
      {"/model/unk_id", "-1", "model.unk_id: expected"},
      {"/model/vocab", "{}", "model.vocab: expected a list"},
      {"/model/vocab", "[]", "model.unk_id: expected"},
      {"/model/vocab/7", R"(["a"])", "model.vocab[7]: expected a token and its score"},
      {"/model/vocab/7", R"(["a", "1"])", "model.vocab[7]: expected a token and its score"},
      {"/model/vocab/7", R"(["", 1])", "model.vocab[7]: expected the text of a token"},
      {"/normalizer", R"({"type": "NFKD"})", "normalizer.type: 'NFKD' is not supported"},
      {"/normalizer", R"({"type": "Precompiled"})", "normalizer.precompiled_charsmap: expected a text"},
      {"/normalizer/precompiled_charsmap", R"("A=AA")", "precompiled_charsmap: is not base64"},
      {"/normalizer/precompiled_charsmap", R"("AAA")", "precompiled_charsmap: is not base64"},
      {"/normalizer/precompiled_charsmap", R"("")", "there are 0 bytes"},
      {"/normalizer/precompiled_charsmap", R"("CAAAAAAAAAA=")", "there are 8 bytes"},
      {"/normalizer", R"({"type": "Replace", "pattern": {"Regex": "("}, "content": ""})", "not a regular expression"},
      {"/normalizer", R"({"type": "Replace", "pattern": {"Regex": "a"}})", "normalizer.content: expected a text"},
      {"/normalizer", R"({"type": "Strip", "strip_left": 1})", "normalizer.strip_left: expected true or false"},
      {"/pre_tokenizer", "null", "pre_tokenizer: expected an object"},
      {"/pre_tokenizer", R"({"type": "WhitespaceSplit"})", "does not end in Metaspace"},
      {"/pre_tokenizer/pretokenizers/0/type", R"("Whitespace")", "pretokenizers[0].type: 'Whitespace'"},
      {"/pre_tokenizer/pretokenizers/0", R"({"type": "Metaspace", "replacement": "▁"})",
       "nothing may follow Metaspace"},
      {"/pre_tokenizer/pretokenizers/1/replacement", R"("_")", "replacement: is not supported"},
      {"/pre_tokenizer/pretokenizers/1/prepend_scheme", R"("last")", "prepend_scheme: 'last' is not supported"},
      {"/pre_tokenizer/pretokenizers/1/prepend_scheme", R"("first")",
       "'first' is not supported behind WhitespaceSplit"},
      {"/pre_tokenizer/pretokenizers/1/add_prefix_space", "false", "contradicts prepend_scheme 'always'"},
      {"/decoder", "null", "decoder: expected Metaspace"},
      {"/decoder", R"({"type": "ByteLevel"})", "decoder.type: 'ByteLevel' is not supported"},
      {"/post_processor", R"({"type": "BertProcessing"})", "post_processor.cls: expected a list"},
      {"/added_tokens/5/id", "7", "added token '<extra_id_"},
  };
  for (const auto& [pointer, value, said] : cases)
    EXPECT_THAT(refusal_with(pointer, value), HasSubstr(said)) << pointer << " " << value;
}

TEST_F(T5Files, RefusesAddedTokensThatVanish) {
  json_["added_tokens"].push_back({{"id", 1100}, {"content", "\u200b\u0001"}, {"normalized", true}});
  json_["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "."}}}, {"content", ""}};
  EXPECT_THAT(refusal(), HasSubstr("added token 1100: normalizer leaves nothing of it"));
}

TEST_F(T5Files, BoundsWhatNormalizersMake) {
  json_["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(1000, 'b')}};
  const auto tokenizer = open();
  EXPECT_NO_THROW(tokenizer->encode("a"));
  EXPECT_THAT(refusal_of([&] { tokenizer->encode(std::string(1000, 'a')); }), HasSubstr("bytes too long"));
  json_["normalizer"] = {{"type", "Sequence"}, {"normalizers", Json(17, {{"type", "NFC"}})}};
  EXPECT_THAT(refusal(), HasSubstr("more than 16 steps are not supported"));
}

TEST_F(T5Files, ReadsTheTableOfCharacters) {
  OffsetMap origins;
  const CharacterMap map(table(3, std::string("xx\0bc\0", 6)), "table");
  // A cluster of three bytes goes by its first letter, one of seven letter by letter.
  EXPECT_EQ(map.apply("1a\u0301a2\u00e9aa\u0301\u0301\u0301", origins, 100), "1bcbc2\u00e9bcbc\u0301\u0301\u0301");
  EXPECT_THAT(refusal_of([&] { map.apply("aaa", origins, 5); }), HasSubstr("table: makes a text of 3 bytes too long"));
  const auto refusal_of_table = [&](const std::string& bytes) {
    return refusal_of([&] { CharacterMap(bytes, "table"); });
  };
  EXPECT_THAT(refusal_of_table(table(6, std::string("xx\0bc\0", 6))), HasSubstr("table: the trie points to no text"));
  EXPECT_THAT(refusal_of_table(table(1, "\u00e9")), HasSubstr("table: the trie points to no text"));
  EXPECT_THAT(refusal_of_table(table(0, "\xff")), HasSubstr("table: the texts are not UTF-8"));
  EXPECT_THAT(refusal_of_table(number(6) + "123456"), HasSubstr("table: expected the size of a trie"));
  EXPECT_THAT(refusal_of_table(number(0xFFFFFFFC) + "1234"), HasSubstr("there are 8 bytes"));
  std::string no_value = table(0, "x");
  no_value.replace(4 + 4 * 128, 4, number(0));
  EXPECT_THAT(refusal_of_table(no_value), HasSubstr("table: a key of the trie has no value"));
}

TEST_F(T5Files, TellsAModelFromAnother) {
  EXPECT_THAT(spiece_refusal(""), HasSubstr("spiece.model: not a SentencePiece model"));
  EXPECT_THAT(spiece_refusal("not a model"), HasSubstr("spiece.model"));
  EXPECT_THAT(spiece_refusal(spiece_.substr(0, spiece_.size() / 2)), HasSubstr("not a SentencePiece model"));
  // Fields that come later replace those before: a trainer_spec whose model_type is BPE, and pieces behind all others.
  EXPECT_EQ(spiece_refusal(spiece_), "");
  EXPECT_THAT(spiece_refusal(spiece_ + std::string("\x12\x02\x18\x02", 4)), HasSubstr("trainer_spec.model_type: 2"));
  EXPECT_THAT(spiece_refusal(spiece_ + std::string("\x0a\x05\x0a\x01z\x18\x06", 7)), HasSubstr("byte_fallback"));
  EXPECT_THAT(spiece_refusal(spiece_ + std::string("\x0a\x02\x0a\x00", 4)), HasSubstr("expected the text of a token"));
  EXPECT_THAT(spiece_refusal(read_file(kT5.parent_path() / "fixture" / "tokenizer.model")), HasSubstr("model_type: 2"));
  EXPECT_THAT(spiece_refusal(std::string("\x0a\x03\x0a\x01z", 5)), HasSubstr("expected piece 2 to be the unknown one"));
}

TEST_F(T5Files, TakesUserDefinedAndControlPiecesForAddedTokens) {
  put("spiece.model", spiece_ + std::string("\x0a\x08\x0a\x04<ud>\x18\x04\x0a\x09\x0a\x05<ctl>\x18\x03", 21));
  const auto tokenizer = Tokenizer::open(folder_);
  EXPECT_EQ(tokenizer->vocabulary_size(), 1102);
  EXPECT_THAT(tokenizer->encode("<ud><ctl><extra_id_0>"), ElementsAre(1000, 1001, 1101));
  EXPECT_EQ(tokenizer->decode({1000, 1001, 1101}), "<ud>");
}

TEST_F(T5Files, ReadsTheConfigBesideAModel) {
  configure("extra_ids", 3);
  fs::remove(folder_ / "special_tokens_map.json");
  EXPECT_THAT(refusal_of([this] { Tokenizer::open(folder_); }),
              HasSubstr("'<extra_id_3>' is neither in the vocabulary"));
  put("tokenizer_config.json", R"({"extra_ids": 3, "legacy": false, "add_eos_token": false})");
  auto tokenizer = Tokenizer::open(folder_);
  EXPECT_EQ(tokenizer->vocabulary_size(), 1003);
  EXPECT_THAT(tokenizer->encode("<extra_id_0>"), ElementsAre(1002));
  EXPECT_TRUE(tokenizer->adds_eos);
  put("tokenizer_config.json", R"({"eos_token": "."})");
  tokenizer = Tokenizer::open(folder_);
  EXPECT_EQ(tokenizer->piece(*tokenizer->eos_id), ".");
  EXPECT_TRUE(tokenizer->adds_eos);
  for (const Json& count : {Json(-1), Json(4097), Json("3")}) {
    configure("extra_ids", count);
    EXPECT_THAT(refusal_of([this] { Tokenizer::open(folder_); }), HasSubstr("extra_ids: expected a number up to 4096"));
  }
  configure("tokenizer_class", "AlbertTokenizer");
  EXPECT_THAT(refusal_of([this] { Tokenizer::open(folder_); }), HasSubstr("tokenizer_class \"AlbertTokenizer\""));
  fs::remove(folder_ / "spiece.model");
  EXPECT_EQ(Tokenizer::open(folder_)->vocabulary_size(), 1100);
}

TEST_F(T5Files, PrefersTheModel) {
  put("tokenizer.json", "{}");
  EXPECT_TRUE(Tokenizer::is_in(folder_));
  EXPECT_EQ(Tokenizer::open(folder_)->vocabulary_size(), 1100);
  fs::copy(kT5.parent_path() / "fixture" / "tokenizer.model", folder_);
  EXPECT_EQ(Tokenizer::open(folder_)->vocabulary_size(), 1100);
}

// Megabytes without a border, where anything quadratic would take minutes.
TEST_F(T5Files, TakesLongStretchesInTime) {
  Json metaspace = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"split", false}};
  json_["pre_tokenizer"] = metaspace;
  const auto tokenizer = open();
  const auto start = std::chrono::steady_clock::now();
  for (const char* part : {"a", "memory", " ", "\n", "\u2581", "<extra_id_", "\u0301", "\uff21", "\ufdfa", "\xFF",
                           "\U0001f642", "e\u0301"}) {
    std::string text;
    while (text.size() < 1000000) text += part;
    const Encoding encoding = tokenizer->encode_with_offsets(text);
    EXPECT_EQ(encoding.ids.size(), encoding.begins.size());
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 60);
}

// Damage by chance: refused with an Error, or opened and used, but nothing else.
class Damage : public T5Files {
 protected:
  void damage(const std::string& name, const std::string& whole, const std::string& letters) {
    const Adversarial strings;
    SplitMix64 draw(12);
    int opened = 0;
    for (int round = 0; round < 1500; ++round) {
      std::string bytes = whole;
      for (uint64_t times = 1 + draw.below(3); times > 0; --times) {
        const uint64_t at = draw.below(bytes.size()), length = draw.below(12);
        const uint64_t way = draw.below(6);
        if (way == 0)
          bytes.erase(at, length);
        else if (way == 1)
          bytes.insert(at, bytes.substr(draw.below(bytes.size()), length));
        else if (letters.empty())
          bytes[at] = static_cast<char>(static_cast<unsigned char>(draw.below(256)));
        else
          bytes[at] = letters[draw.below(letters.size())];
      }
      put(name, bytes);
      try {
        const auto tokenizer = Tokenizer::open(folder_);
        for (uint64_t i = 0; i < 5; ++i) {
          const Encoding encoding = tokenizer->encode_with_offsets(strings.make(5 * round + i));
          EXPECT_EQ(encoding.ids, tokenizer->encode(strings.make(5 * round + i)));
          tokenizer->decode(encoding.ids);
        }
        ++opened;
      } catch (const Error&) {
      }
    }
    EXPECT_GT(opened, 10);
  }
};

TEST_F(Damage, OfTokenizerJsonIsSurvived) {
  json_["model"]["vocab"].get_ref<Json::array_t&>().resize(40);  // so that damage meets the other parts, too
  json_["added_tokens"].get_ref<Json::array_t&>().resize(3);
  json_["normalizer"] = parse_json(R"({"type": "Sequence", "normalizers": [{"type": "Strip", "strip_right": true},
      {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]})",
                                   "normalizer");
  fs::remove(folder_ / "tokenizer_config.json");
  fs::remove(folder_ / "special_tokens_map.json");
  fs::remove(folder_ / "spiece.model");
  damage("tokenizer.json", json_.dump(), "{}[],:\"0123456789-.eE truefalsn\\u\xC4\x80");
}

// Most of the file is the table of characters.
TEST_F(Damage, OfSpieceModelIsSurvived) { damage("spiece.model", spiece_, ""); }

}  // namespace
}  // namespace fathom::tokenizer
