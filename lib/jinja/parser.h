// A template's source to its syntax tree: statements (parser.cpp), and the expressions in them (parse_expression.cpp).
#pragma once

#include <string>
#include <string_view>

#include "jinja/ast.h"
#include "jinja/token_stream.h"

namespace fathom::jinja {

// Throws Error ("origin:line: …") where Jinja's parser or compiler would, and for what is not in the subset.
Syntax parse(std::string_view source, const std::string& origin);

// with_conditional: whether `a if b else c` is one, which it is not where a statement's own `if` may follow.
ExpressionPtr parse_expression(TokenStream& stream, bool with_conditional = true);
// One expression, or several with commas between them as a tuple, up to the end of the tag or `end_name`.
ExpressionPtr parse_tuple(TokenStream& stream, bool with_conditional = true, std::string_view end_name = "");
Filter parse_filter(TokenStream& stream);  // "name(…)", as it stands behind a bar

}  // namespace fathom::jinja
