// Unigram against transformers and Hugging Face's tokenizers (t5/, by scripts/golden/tokenizer_unigram.py), and what it
// does with hand-made vocabularies.
#include "tokenizer/unigram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json_value.h"
#include "tests/tokenizer/adversarial.h"
#include "tests/tokenizer/t5_folder.h"
#include "tokenizer/tokenizer_json.h"

namespace fathom::tokenizer {
namespace {

using ::testing::ElementsAre;

uint64_t number_of(const Json& hexadecimal) { return std::stoull(hexadecimal.get<std::string>(), nullptr, 16); }

class UnigramGolden : public T5Folder, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    T5Folder::SetUp();
    fs::remove(folder_ / GetParam());  // of the two files, the other is read
    tokenizer_ = Tokenizer::open(folder_);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  Json golden_ = read_json(kT5 / "golden.json");
};

TEST_P(UnigramGolden, GivesTheIdsAndTextsOfTransformers) {
  ASSERT_GT(golden_["texts"].size(), 300u);
  for (const Json& test : golden_["texts"]) {
    const auto ids = test["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer_->encode(test["text"].get<std::string>()), ids) << test["text"];
    EXPECT_EQ(tokenizer_->decode(ids), test["decoded"].get<std::string>()) << test["text"];
  }
}

TEST_P(UnigramGolden, GivesTheIdsOfLongTexts) {
  for (const Json& test : golden_["long"]) {
    std::string text;
    for (int i = 0; i < test["times"].get<int>(); ++i) text += test["part"].get<std::string>();
    const Encoding encoding = tokenizer_->encode_with_offsets(text);
    EXPECT_EQ(hash_of(encoding.ids), number_of(test["hash"])) << test["part"];
    EXPECT_EQ(hash_of(tokenizer_->encode(text)), number_of(test["hash"])) << test["part"];
    EXPECT_TRUE(std::is_sorted(encoding.begins.begin(), encoding.begins.end()));
  }
}

TEST_P(UnigramGolden, ReadsSpecialTokens) {
  EXPECT_EQ(tokenizer_->pad_id, 0);
  EXPECT_EQ(tokenizer_->eos_id, 1);
  EXPECT_EQ(tokenizer_->unk_id, 2);
  EXPECT_FALSE(tokenizer_->bos_id);
  EXPECT_FALSE(tokenizer_->adds_bos);
  EXPECT_TRUE(tokenizer_->adds_eos);
  EXPECT_EQ(tokenizer_->vocabulary_size(), 1100);
  EXPECT_EQ(tokenizer_->piece(1099), "<extra_id_0>");
  EXPECT_EQ(tokenizer_->piece(1000), "<extra_id_99>");
  EXPECT_EQ(tokenizer_->token_bytes(1099), "");
}

INSTANTIATE_TEST_SUITE_P(Unigram, UnigramGolden, ::testing::Values("tokenizer.json", "spiece.model"),
                         [](const auto& name) {
                           return name.param == std::string("spiece.model") ? "TokenizerJson" : "SpieceModel";
                         });

// The parts that converters of other years wrote around the model.
TEST_F(T5Folder, TakesOtherPartsOfTokenizerJson) {
  const Json whole = json_;
  const Adversarial strings;
  const Json golden = read_json(kT5 / "golden.json");
  for (const Json& variant : golden["variants"]) {
    json_ = whole;
    for (const auto& [key, part] : variant["parts"].items()) json_[key] = part;
    const Json table = whole["normalizer"]["precompiled_charsmap"];
    Json& normalizer = json_["normalizer"];
    if (normalizer.is_object() && normalizer["type"] == "Precompiled") normalizer["precompiled_charsmap"] = table;
    if (normalizer.is_object() && normalizer["type"] == "Sequence") {
      Json& first = normalizer["normalizers"][0];
      if (first["type"] == "Precompiled") first["precompiled_charsmap"] = table;
    }
    const auto tokenizer = open();
    uint64_t ids_hash = kHashStart, decoded_hash = kHashStart;
    for (uint64_t i = 0; i < 10000; ++i) {
      const Encoding encoding = tokenizer->encode_with_offsets(strings.make(i));
      const auto ids = tokenizer->encode(strings.make(i));
      ASSERT_EQ(encoding.ids, ids);
      const uint64_t hash = hash_of(ids);
      ids_hash = fnv({reinterpret_cast<const char*>(&hash), sizeof hash}, ids_hash);
      decoded_hash = fnv(tokenizer->decode(ids) + "\xff", decoded_hash);
    }
    EXPECT_EQ(ids_hash, number_of(variant["ids"])) << variant["parts"];
    EXPECT_EQ(decoded_hash, number_of(variant["decoded"])) << variant["parts"];
  }
}

TEST_F(T5Folder, GivesThePlacesOfTokens) {
  const auto tokenizer = Tokenizer::open(folder_);
  const std::string text = "memory  \xEF\xBC\xA1 needs<extra_id_0>\n weights";
  const Encoding encoding = tokenizer->encode_with_offsets(text);
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    std::string bytes = tokenizer->token_bytes(encoding.ids[i]);
    if (bytes.starts_with(' ')) bytes.erase(0, 1);
    if (bytes == "A") bytes = "\xEF\xBC\xA1";
    EXPECT_TRUE(text.substr(encoding.begins[i]).starts_with(bytes)) << i << " " << bytes;
  }
  const auto sentinel = std::find(encoding.ids.begin(), encoding.ids.end(), 1099) - encoding.ids.begin();
  EXPECT_EQ(encoding.begins[sentinel], static_cast<int64_t>(text.find('<')));
}

// T5's own scores of "▁", "g" and "gg": read as the nearest doubles, all three segmentations have the same sum.
TEST_F(T5Folder, RoundsScoresAsHuggingFace) {
  Json& vocabulary = json_["model"]["vocab"];
  const auto mark =
      std::find_if(vocabulary.begin(), vocabulary.end(), [](const Json& token) { return token[0] == "▁"; });
  const auto mark_id = static_cast<int32_t>(mark - vocabulary.begin());
  vocabulary[mark_id][1] = -2.0122928619384766;
  vocabulary[998] = {"ð", -7.407997131347656};
  vocabulary[999] = {"ðð", -10.809488296508789};
  EXPECT_THAT(open()->encode("ððððð"), ElementsAre(mark_id, 999, 999, 998));
}

Unigram make(std::vector<std::pair<std::string, double>> tokens) {
  UnigramVocabulary vocabulary;
  for (auto& [piece, score] : tokens) {
    vocabulary.pieces.push_back(piece);
    vocabulary.scores.push_back(score);
  }
  return Unigram(std::move(vocabulary), "vocab");
}

std::vector<int32_t> encode(const Unigram& unigram, std::string_view text, std::vector<int64_t>* begins = nullptr) {
  UnigramWorkspace workspace;
  std::vector<int32_t> ids;
  unigram.encode(text, workspace, ids, begins);
  return ids;
}

TEST(Unigram, TakesTheBestSum) {
  const Unigram unigram =
      make({{"<unk>", 0}, {"a", 0}, {"b", 0}, {"c", 0}, {"d", 0}, {"cd", 1}, {"ab", 2}, {"abc", 5}, {"abcd", 10}});
  std::vector<int64_t> begins;
  EXPECT_THAT(encode(unigram, "abcdacdxx", &begins), ElementsAre(8, 1, 5, 0));
  EXPECT_THAT(begins, ElementsAre(0, 4, 5, 7));
  EXPECT_THAT(encode(unigram, ""), ElementsAre());
}

TEST(Unigram, KeepsTheLongestLastTokenOfEqualSums) {
  EXPECT_THAT(encode(make({{"<unk>", -9}, {"a", -1}, {"aa", -2}}), "aaa"), ElementsAre(1, 2));
  EXPECT_THAT(encode(make({{"<unk>", -9}, {"a", -1}, {"b", -1}, {"ab", -2}, {"ba", -2}}), "aba"), ElementsAre(1, 4));
}

TEST(Unigram, FusesUnknownCharactersAcrossBorders) {
  const Unigram unigram = make({{"<unk>", -1}, {"a", -1}, {"bb", -100}});
  std::vector<int64_t> begins;
  EXPECT_THAT(encode(unigram, "xyazé<unk>aq", &begins), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_THAT(begins, ElementsAre(0, 2, 3, 11, 12));
  EXPECT_THAT(encode(unigram, "bb"), ElementsAre(2));
  EXPECT_THAT(encode(make({{"<unk>", 100}, {"bb", 100}}), "bb"),
              ElementsAre(1));  // twice unknown, but a piece together
}

TEST(Unigram, TakesAnUnknownCharacterForTenBelowTheLowestScore) {
  EXPECT_THAT(encode(make({{"<unk>", 0}, {"a", 9}, {"ab", 0}}), "ab"), ElementsAre(2));
  EXPECT_THAT(encode(make({{"<unk>", 0}, {"a", 11}, {"ab", 0}}), "ab"), ElementsAre(1, 0));
}

// Sums are rounded as if nothing had been decided before.
TEST(Unigram, CarriesTheScoreAcrossBorders) {
  const Unigram unigram = make({{"<unk>", 0}, {"x", 1e17}, {"a", -1}, {"b", -1}, {"ab", -3}});
  EXPECT_THAT(encode(unigram, "ab"), ElementsAre(2, 3));
  EXPECT_THAT(encode(unigram, "xab"), ElementsAre(1, 4));
}

TEST(Unigram, TakesTheLastOfEqualPieces) {
  std::vector<std::pair<std::string, double>> tokens = {{"<unk>", 0}};
  for (int i = 0; i < 50; ++i) tokens.emplace_back("a", i);
  EXPECT_THAT(encode(make(tokens), "a"), ElementsAre(50));
}

TEST(Unigram, RefusesVocabulariesByName) {
  EXPECT_THROW(make({}), Error);
  EXPECT_THROW(make({{"", 0}}), Error);
  EXPECT_THROW(make({{"\xff", 0}}), Error);
  EXPECT_THROW(make({{"a", std::numeric_limits<double>::quiet_NaN()}}), Error);
  EXPECT_THROW(make({{std::string(1025, 'a'), 0}}), Error);
}

// Pieces of a to a border-less text: memory is bounded, however long it is.
TEST(Unigram, RefusesALongTextWithoutABorder) {
  const Unigram unigram = make({{"<unk>", 0}, {"a", -2}, {"aa", -3}});
  EXPECT_EQ(encode(unigram, std::string(4'000'000, 'a')).size(), 2'000'000u);
  EXPECT_THROW(encode(unigram, std::string(20'000'000, 'a')), Error);
  EXPECT_EQ(encode(unigram, std::string(20'000'000, 'x')).size(), 1u);
}

}  // namespace
}  // namespace fathom::tokenizer
