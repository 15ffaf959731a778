// The parser's place in the tokens, and what all its parts share.
#pragma once

#include <algorithm>
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

  // Unknown filters and tests fail when they are compiled, but within an if statement or expression only when they are
  // reached, as in Jinja. note_unknown() remembers one; what was noted since mark() is forgotten where an if makes it
  // conditional, and stays for good at the end of a loop's, macro's or block's body.
  void note_unknown(std::string what) { unknown_.emplace_back(line(), std::move(what)); }
  size_t mark() const { return unknown_.size(); }
  void forget_since(size_t mark) { unknown_.resize(std::max(mark, certain_)); }
  void keep_since(size_t mark) { certain_ = unknown_.size() > mark ? unknown_.size() : certain_; }
  void fail_if_unknown() const;

 private:
  std::vector<Token> tokens_;
  const std::string& origin_;
  size_t at_ = 0;
  int depth_ = 0;
  std::vector<std::pair<int, std::string>> unknown_;
  size_t certain_ = 0;
};

std::string describe(const Token& token);

}  // namespace fathom::jinja
