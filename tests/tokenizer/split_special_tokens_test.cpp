// Special tokens in literal stretches stay text: transformers' ids (scripts/golden/split_special_tokens.py).
#include <gtest/gtest.h>

#include "base/json_value.h"
#include "tokenizer/tokenizer.h"

namespace fathom::tokenizer {
namespace {

using Ids = std::vector<int32_t>;

TEST(SplitSpecialTokens, AreThoseOfTransformers) {
  const Json golden = read_json(FATHOM_SOURCE_DIR "/tests/tokenizer/split_special_tokens.json");
  EXPECT_GT(golden.size(), 30U);
  std::string opened;
  std::unique_ptr<Tokenizer> tokenizer;
  for (const Json& each : golden) {
    const auto folder = each["folder"].get<std::string>(), text = each["text"].get<std::string>();
    SCOPED_TRACE(folder + ": " + text);
    if (folder != opened) tokenizer = Tokenizer::open(FATHOM_SOURCE_DIR "/" + folder);
    opened = folder;
    const Literal all{0, text.size()};
    EXPECT_EQ(tokenizer->encode(text), each["found"].get<Ids>());
    EXPECT_EQ(tokenizer->encode_with_offsets(text, {&all, 1}).ids, each["split"].get<Ids>());
    // What is found are the tokens that stand there.
    for (const SpecialText& special : tokenizer->special_tokens_in(text)) {
      EXPECT_EQ(text.substr(special.begin, special.end - special.begin), tokenizer->piece(special.id));
    }
  }
}

TEST(SplitSpecialTokens, StayTextWhereTheyTouchALiteralAlone) {
  const auto tokenizer = Tokenizer::open(FATHOM_SOURCE_DIR "/tests/tokenizer/qwen2");
  const std::string end = "<|im_end|>", text = end + "so" + end + end;
  const auto found = tokenizer->special_tokens_in(text);
  ASSERT_EQ(found.size(), 3U);
  const int32_t id = found[0].id;
  for (size_t literal = 0; literal < found.size(); ++literal) {
    for (const auto& [begin, size] : {std::pair<size_t, size_t>{0, end.size()}, {0, 1}, {end.size() - 1, 1}, {3, 2}}) {
      const Literal stretch{found[literal].begin + begin, found[literal].begin + begin + size};
      const Encoding encoding = tokenizer->encode_with_offsets(text, {&stretch, 1});
      std::vector<int64_t> expected;
      for (size_t i = 0; i < found.size(); ++i) {
        if (i != literal) expected.push_back(static_cast<int64_t>(found[i].begin));
      }
      std::vector<int64_t> begins;
      for (size_t i = 0; i < encoding.ids.size(); ++i) {
        if (encoding.ids[i] == id) begins.push_back(encoding.begins[i]);
      }
      EXPECT_EQ(begins, expected) << literal << ": " << begin << " " << size;
      EXPECT_EQ(tokenizer->decode(encoding.ids), literal == 0 ? end + "so" : "so" + end);
    }
  }
}

}  // namespace
}  // namespace fathom::tokenizer
