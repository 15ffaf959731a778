// Moving through the tokens, with Jinja's messages where they are not the expected ones.
#include "jinja/token_stream.h"

namespace fathom::jinja {

using Type = Token::Type;

std::string describe(const Token& token) {
  switch (token.type) {
    case Type::kText:
      return "template data / text";
    case Type::kPrintBegin:
      return "begin of print statement";
    case Type::kPrintEnd:
      return "end of print statement";
    case Type::kBlockBegin:
      return "begin of statement block";
    case Type::kBlockEnd:
      return "end of statement block";
    case Type::kString:
      return "string";
    case Type::kInteger:
      return "integer";
    case Type::kFloat:
      return "float";
    case Type::kEnd:
      return "end of template";
    case Type::kName:
    case Type::kOperator:
      break;
  }
  return token.text;
}

bool TokenStream::next_is_name(std::string_view text) const {
  if (at_ + 1 >= tokens_.size()) return false;
  return tokens_[at_ + 1].type == Type::kName && tokens_[at_ + 1].text == text;
}

bool TokenStream::next_is_operator(std::string_view text) const {
  if (at_ + 1 >= tokens_.size()) return false;
  return tokens_[at_ + 1].type == Type::kOperator && tokens_[at_ + 1].text == text;
}

Token TokenStream::take() {
  Token token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenStream::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  take();
  return true;
}

bool TokenStream::skip_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  take();
  return true;
}

std::string TokenStream::expect_name() {
  if (!is(Type::kName)) fail("expected a name, got '" + describe(current()) + "'");
  return take().text;
}

void TokenStream::expect_operator(std::string_view text) {
  if (!skip_operator(text)) fail("expected token '" + std::string(text) + "', got '" + describe(current()) + "'");
}

void TokenStream::expect(Type type) {
  if (!is(type)) fail("expected token '" + describe({type, "", 0}) + "', got '" + describe(current()) + "'");
  take();
}

TokenStream::Level::Level(TokenStream& stream) : stream_(stream) {
  if (stream.depth_ >= kDeepestSyntax) stream.fail("nested deeper than " + std::to_string(kDeepestSyntax) + " levels");
  ++stream_.depth_;
}

void TokenStream::fail_if_unknown() const {
  if (!unknown_.empty()) fail_at(origin_, unknown_.front().first, unknown_.front().second);
}

}  // namespace fathom::jinja
