// A template's source to tokens, with the treatment of blanks that transformers asks of Jinja (trim_blocks and
// lstrip_blocks on), and the parser's place in them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/meter.h"

namespace fathom::jinja {

struct Token {
  enum class Type { kText, kName, kString, kInteger, kFloat, kOperator, kEnd };
  Type type = Type::kEnd;
  std::string text;  // of a string: unescaped; tags begin and end with the operators {{ }} {% %}
  int line = 1;
};

// The last token is kEnd. Throws Error ("origin:line: …") where Jinja's lexer would.
std::vector<Token> tokenize(std::string_view source, const std::string& origin);

class TokenStream {
 public:
  TokenStream(std::vector<Token> tokens, const std::string& origin) : tokens_(std::move(tokens)), origin_(origin) {}

  const Token& current() const { return tokens_[at_]; }
  int line() const { return current().line; }
  bool is(Token::Type type) const { return current().type == type; }
  // A name or an operator; no text is both.
  bool stands_at(std::string_view text) const { return is_text(current(), text); }
  bool is_followed_by(std::string_view text) const { return !is(Token::Type::kEnd) && is_text(tokens_[at_ + 1], text); }

  Token take();
  bool skip(std::string_view text);
  std::string expect_name();
  void expect(std::string_view text);
  // What stands between brackets, with commas between and perhaps behind, and the closing one.
  template <typename ReadItem>
  void expect_items(std::string_view close, const ReadItem& read_item) {
    while (!skip(close)) {
      read_item();
      if (!stands_at(close)) expect(",");
    }
  }
  std::vector<std::string> literals() const;  // the texts of all strings, each once
  [[noreturn]] void fail(const std::string& what) const { fail_at(origin_, line(), what); }
  const std::string& origin() const { return origin_; }

  // One level of nested syntax while it lives.
  class Level {
   public:
    explicit Level(TokenStream& stream);
    ~Level() { --stream_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    TokenStream& stream_;
  };

  // What statements the current one stands in.
  struct Place {
    bool in_loop = false;
    bool at_top = true;  // in no loop, macro or block
    // In an if statement, but in no loop, macro or block inside it: as in Jinja, unknown filters and tests fail there
    // when they are reached, elsewhere when they are parsed.
    bool is_conditional = false;
  };
  Place place;
  bool uses_caller = false;  // whether the name `caller` was read since this was set to false

 private:
  static bool is_text(const Token& token, std::string_view text) {
    return (token.type == Token::Type::kName || token.type == Token::Type::kOperator) && token.text == text;
  }

  std::vector<Token> tokens_;
  const std::string& origin_;
  size_t at_ = 0;
  int depth_ = 0;
};

std::string describe(const Token& token);

}  // namespace fathom::jinja
