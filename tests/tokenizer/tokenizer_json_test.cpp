// Ids, offsets and decoded texts against Hugging Face's tokenizers (golden files by scripts/golden/tokenizer_json.py).
#include "tokenizer/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/file.h"
#include "tests/tokenizer/adversarial.h"

namespace fathom::tokenizer {
namespace {

namespace fs = std::filesystem;

class Golden : public testing::TestWithParam<const char*> {
 protected:
  fs::path folder_ = fs::path(FATHOM_SOURCE_DIR) / "tests" / "tokenizer" / GetParam();
  std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::open(folder_);
  Json golden_ = read_json(folder_ / "golden.json");
  Adversarial strings_;
};

TEST_P(Golden, ShowsTheIdsAndTextsOfHuggingFace) {
  ASSERT_GE(golden_["cases"].size(), 100u);
  for (size_t i = 0; i < golden_["cases"].size(); ++i) {
    const Json& expected = golden_["cases"][i];
    const auto ids = tokenizer_->encode(strings_.make(i));
    EXPECT_EQ(ids, expected["ids"].get<std::vector<int32_t>>()) << i << ": " << strings_.make(i);
    EXPECT_EQ(tokenizer_->decode(ids), expected["decoded"].get<std::string>()) << i;
  }
}

TEST_P(Golden, GivesTheIdsOfTenThousandStrings) {
  const std::string hashes = read_file(folder_ / "hashes.bin");
  ASSERT_EQ(hashes.size(), 80000u);
  uint64_t decoded = kHashStart;
  int wrong = 0;
  for (size_t i = 0; i < hashes.size() / sizeof(uint64_t); ++i) {
    uint64_t expected = 0;
    std::memcpy(&expected, hashes.data() + i * sizeof expected, sizeof expected);
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
    const std::string text = strings_.make(i);
    Encoding encoding = tokenizer_->encode_with_offsets(text);
    for (int64_t& begin : encoding.begins) {
      while ((text[begin] & 0xC0) == 0x80) --begin;
    }
    EXPECT_EQ(encoding.begins, expected["begins"].get<std::vector<int64_t>>()) << i << ": " << text;
    ++compared;
  }
  const std::string_view name = GetParam();
  EXPECT_GT(compared, name == "qwen2" ? -1 : name == "t5" ? 10 : 90);
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

INSTANTIATE_TEST_SUITE_P(TokenizerJson, Golden, testing::Values("gpt2", "llama3", "qwen2", "t5"),
                         [](const auto& name) { return std::string(name.param); });

}  // namespace
}  // namespace fathom::tokenizer
