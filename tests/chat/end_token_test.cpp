// Where an answer ends, with a tokenizer of bytes that knows two tokens more.
#include "chat/end_token.h"

#include <gtest/gtest.h>

namespace fathom::chat {
namespace {

class Bytes : public tokenizer::Tokenizer {
 public:
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    for (size_t at = 0; at < text.size();) {
      const bool special = text.substr(at).starts_with("<end>"), plain = text.substr(at).starts_with("</u>");
      ids.push_back(special ? 256 : plain ? 257 : static_cast<unsigned char>(text[at]));
      at += special ? 5 : plain ? 4 : 1;
    }
    return ids;
  }
  tokenizer::Encoding encode_with_offsets(std::string_view text, tokenizer::Literals) const override {
    return {encode(text), {}};
  }
  std::vector<tokenizer::SpecialText> special_tokens_in(std::string_view) const override { return {}; }
  std::string token_bytes(int32_t id) const override {
    if (id == 256) return "";
    return id == 257 ? "</u>" : std::string(1, static_cast<char>(id));
  }
  std::string piece(int32_t id) const override { return token_bytes(id); }
  int64_t vocabulary_size() const override { return 258; }
};

std::optional<int32_t> end_token_of(const std::string& behind) {
  const ChatTemplate style("{% for m in messages %}{{ m.role ~ ':' ~ m.content ~ '" + behind + "' }}{% endfor %}", "t");
  return end_token(style, Bytes());
}

TEST(EndToken, IsWhatTheTemplateWritesBehindAnAnswer) {
  EXPECT_EQ(end_token_of("<end>\\n"), 256);
  EXPECT_EQ(end_token_of("\\n<end></s>\\n"), 256);
  EXPECT_EQ(end_token_of("</u>\\n"), 257);
}

TEST(EndToken, IsNoPlainText) {
  EXPECT_EQ(end_token_of("."), std::nullopt);
  EXPECT_EQ(end_token_of("<"), std::nullopt);
  EXPECT_EQ(end_token_of(" ###\\n"), std::nullopt);
  EXPECT_EQ(end_token_of("\\n\\n"), std::nullopt);
  EXPECT_EQ(end_token_of(""), std::nullopt);
}

}  // namespace
}  // namespace fathom::chat
