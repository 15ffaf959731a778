// The parser's place in the tokens, and what all its parts share.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/lexer.h"
#include "jinja/meter.h"

namespace fathom::jinja {

class TokenStream {
 public:
  TokenStream(std::vector<Token> tokens, const std::string& origin) : tokens_(std::move(tokens)), origin_(origin) {}

  const Token& current() const { return tokens_[at_]; }
  int line() const { return current().line; }
  bool is(Token::Type type) const { return current().type == type; }
  bool is_name(std::string_view text) const { return is(Token::Type::kName) && current().text == text; }
  bool is_operator(std::string_view text) const { return is(Token::Type::kOperator) && current().text == text; }
  bool next_is(Token::Type type, std::string_view text) const;

  Token take();
  bool skip_name(std::string_view text);
  bool skip_operator(std::string_view text);
  std::string expect_name();
  void expect_operator(std::string_view text);
  void expect(Token::Type type);
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

 private:
  std::vector<Token> tokens_;
  const std::string& origin_;
  size_t at_ = 0;
  int depth_ = 0;
};

std::string describe(const Token& token);

}  // namespace fathom::jinja
