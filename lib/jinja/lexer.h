// A template's source to tokens, with the treatment of blanks that transformers asks of Jinja: trim_blocks and
// lstrip_blocks on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fathom::jinja {

struct Token {
  enum class Type {
    kText,
    kPrintBegin,
    kPrintEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };
  Type type = Type::kEnd;
  std::string text;  // of a string: unescaped
  int line = 1;
};

// The last token is kEnd. Throws Error ("origin:line: …") where Jinja's lexer would.
std::vector<Token> tokenize(std::string_view source, const std::string& origin);

}  // namespace fathom::jinja
