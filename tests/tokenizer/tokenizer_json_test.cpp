// Ids, offsets and decoded texts against Hugging Face's tokenizers (golden files by scripts/golden/tokenizer_json.py,
// published_tokenizers.py).
#include "tokenizer/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/file.h"
#include "base/json_value.h"
#include "tests/tokenizer/adversarial.h"

namespace fathom::tokenizer {
namespace {

namespace fs = std::filesystem;

class Golden : public ::testing::TestWithParam<const char*> {
 protected:
  // The string that a case shows.
  uint64_t string_of(size_t number) const { return golden_["cases"][number].value("string", number); }

  fs::path folder_ = fs::path(FATHOM_SOURCE_DIR) / "tests" / "tokenizer" / GetParam();
  std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::open(folder_);
  Json golden_ = read_json(folder_ / "golden.json");
  Adversarial strings_;
};

TEST_P(Golden, ShowsTheIdsAndTextsOfHuggingFace) {
  ASSERT_GE(golden_["cases"].size(), 20u);
  for (size_t i = 0; i < golden_["cases"].size(); ++i) {
    const Json& expected = golden_["cases"][i];
    const std::string text = strings_.make(string_of(i));
    const auto ids = tokenizer_->encode(text);
    EXPECT_EQ(ids, expected["ids"].get<std::vector<int32_t>>()) << i << ": " << text;
    EXPECT_EQ(tokenizer_->decode(ids), expected["decoded"].get<std::string>()) << i;
  }
}

TEST_P(Golden, GivesTheIdsOfThousandsOfStrings) {
  const std::string hashes = read_file(folder_ / "hashes.bin");
  ASSERT_GE(hashes.size(), 16000u);
  uint64_t decoded = kHashStart;
  int wrong = 0;
  for (size_t i = 0; i < hashes.size() / sizeof(uint64_t); ++i) {
    uint64_t expected = 0;
    std::memcpy(&expected, hashes.data() + i * sizeof expected, sizeof expected);
    if (expected == 0) continue;  // has characters that Hugging Face's tables do not know
    const auto ids = tokenizer_->encode(strings_.make(i));
    if (hash_of(ids) != expected && ++wrong < 10) ADD_FAILURE() << "string " << i << ": " << strings_.make(i);
    decoded = fnv(tokenizer_->decode(ids) + "\xff", decoded);
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(decoded, std::stoull(golden_["decoded"].get<std::string>(), nullptr, 16));
}

// Hugging Face counts characters, so a token that begins within one is given that character's place.
TEST_P(Golden, GivesThePlacesOfTokens) {
  int compared = 0;
  for (size_t i = 0; i < golden_["cases"].size(); ++i) {
    const Json& expected = golden_["cases"][i];
    if (!expected.contains("begins")) continue;
    const std::string text = strings_.make(string_of(i));
    Encoding encoding = tokenizer_->encode_with_offsets(text);
    for (int64_t& begin : encoding.begins) {
      while ((text[begin] & 0xC0) == 0x80) --begin;
    }
    EXPECT_EQ(encoding.begins, expected["begins"].get<std::vector<int64_t>>()) << i << ": " << text;
    ++compared;
  }
  const Json normalizer = read_json(folder_ / "tokenizer.json")["normalizer"];
  const std::string_view name = GetParam();
  if (!normalizer.is_null() || name == "published/codet5") return;
  EXPECT_GT(compared, static_cast<int>(golden_["cases"].size()) * 3 / 4);
}

TEST_P(Golden, GivesPlacesThatNeverDescend) {
  for (size_t i = 0; i < 2000; ++i) {
    const std::string text = strings_.make(i);
    const Encoding encoding = tokenizer_->encode_with_offsets(text);
    ASSERT_EQ(encoding.ids, tokenizer_->encode(text));
    ASSERT_EQ(encoding.begins.size(), encoding.ids.size());
    ASSERT_TRUE(std::is_sorted(encoding.begins.begin(), encoding.begins.end())) << i;
    if (encoding.begins.empty()) continue;  // of blanks, a tokenizer may make nothing
    ASSERT_GE(encoding.begins.front(), 0);
    ASSERT_LT(encoding.begins.back(), static_cast<int64_t>(text.size()));
  }
}

INSTANTIATE_TEST_SUITE_P(TokenizerJson, Golden,
                         ::testing::Values("gpt2", "llama3", "qwen2", "t5", "published/llama2", "published/phi3",
                                           "published/codellama", "published/mistral3", "published/gemma2",
                                           "published/gemma3", "published/olmoe", "published/granite3",
                                           "published/codet5", "published/command_r", "published/olmo2",
                                           "published/glm4", "published/cwm", "published/ministral",
                                           "published/ministral3", "published/qwen35", "published/gpt_oss",
                                           "published/compatible", "published/llama2_saved", "published/phi3_saved",
                                           "published/codellama_saved", "published/mistral3_saved",
                                           "published/gemma2_saved"),
                         [](const auto& name) {
                           const std::string folder = name.param;
                           return folder.substr(folder.find('/') + 1);
                         });

}  // namespace
}  // namespace fathom::tokenizer
