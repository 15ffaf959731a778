// Moving through the tokens, with Jinja's messages where they are not the expected ones.
#include "jinja/token_stream.h"

#include <set>

namespace fathom::jinja {

using Type = Token::Type;

std::string describe(const Token& token) {
  if (token.type == Type::kText) return "text";
  if (token.type == Type::kString) return "string";
  return token.type == Type::kEnd ? "end of template" : token.text;
}

Token TokenStream::take() {
  Token token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenStream::skip(std::string_view text) {
  if (!stands_at(text)) return false;
  take();
  return true;
}

std::string TokenStream::expect_name() {
  if (!is(Type::kName)) fail("expected a name, got '" + describe(current()) + "'");
  return take().text;
}

void TokenStream::expect(std::string_view text) {
  if (!skip(text)) fail("expected token '" + std::string(text) + "', got '" + describe(current()) + "'");
}

std::vector<std::string> TokenStream::literals() const {
  std::set<std::string> texts;
  for (const Token& token : tokens_) {
    if (token.type == Type::kString) texts.insert(token.text);
  }
  return {texts.begin(), texts.end()};
}

TokenStream::Level::Level(TokenStream& stream) : stream_(stream) {
  if (stream.depth_ >= kDeepestSyntax) stream.fail("nested deeper than " + std::to_string(kDeepestSyntax) + " levels");
  ++stream_.depth_;
}

}  // namespace fathom::jinja
