// Streams of all engines: whole characters only, and together what decoding at once gives.
#include "tokenizer/stream_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tokenizer/adversarial.h"

namespace fathom::tokenizer {
namespace {

namespace fs = std::filesystem;

class Streams : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Tokenizer> tokenizer_ =
      Tokenizer::open(fs::path(FATHOM_SOURCE_DIR) / "tests" / "tokenizer" / GetParam());
};

TEST_P(Streams, GiveWholeCharacters) {
  const Adversarial strings;
  for (uint64_t i = 0; i < 300; ++i) {
    const auto ids = tokenizer_->encode(strings.make(i));
    StreamDecoder decoder(*tokenizer_);
    std::string text;
    for (const int32_t id : ids) {
      const std::string part = decoder.push(id);
      EXPECT_EQ(well_formed_prefix(part), part.size());
      text += part;
    }
    text += decoder.finish();
    EXPECT_EQ(text, tokenizer_->decode(ids));
  }
}

// Ids by chance are rarely UTF-8.
TEST_P(Streams, ReplaceWhatIsNoCharacter) {
  SplitMix64 draw(7);
  for (int round = 0; round < 300; ++round) {
    std::string bytes;
    StreamDecoder decoder(*tokenizer_);
    std::string text;
    bool first = true;
    for (int i = 0; i < 20; ++i) {
      const auto id = static_cast<int32_t>(draw.below(tokenizer_->vocabulary_size()));
      bytes += first ? tokenizer_->first_token_bytes(id) : tokenizer_->token_bytes(id);
      if (!tokenizer_->token_bytes(id).empty()) first = false;
      text += decoder.push(id);
    }
    text += decoder.finish();
    EXPECT_EQ(text, replace_ill_formed(bytes));
  }
}

INSTANTIATE_TEST_SUITE_P(StreamDecoder, Streams, ::testing::Values("fixture", "gpt2", "llama3", "qwen2", "t5"),
                         [](const auto& name) { return std::string(name.param); });

}  // namespace
}  // namespace fathom::tokenizer
