// Moving through the tokens, with Jinja's messages where they are not the expected ones.
#include "jinja/token_stream.h"

#include <array>

namespace fathom::jinja {

using Type = Token::Type;

std::string describe(const Token& token) {
  constexpr std::array<const char*, 11> kNames = {"template data / text",
                                                  "begin of print statement",
                                                  "end of print statement",
                                                  "begin of statement block",
                                                  "end of statement block",
                                                  "",
                                                  "string",
                                                  "integer",
                                                  "float",
                                                  "",
                                                  "end of template"};
  const std::string name = kNames[static_cast<size_t>(token.type)];
  return name.empty() ? token.text : name;
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

void TokenStream::expect(Type type) {
  if (!is(type)) fail("expected token '" + describe({type, "", 0}) + "', got '" + describe(current()) + "'");
  take();
}

TokenStream::Level::Level(TokenStream& stream) : stream_(stream) {
  if (stream.depth_ >= kDeepestSyntax) stream.fail("nested deeper than " + std::to_string(kDeepestSyntax) + " levels");
  ++stream_.depth_;
}

}  // namespace fathom::jinja
