// Expressions, by the precedence of Jinja's parser.
#pragma once

#include "jinja/ast.h"
#include "jinja/token_stream.h"

namespace fathom::jinja {

// with_conditional: whether `a if b else c` is one, which it is not where a statement's own `if` may follow.
ExpressionPtr parse_expression(TokenStream& stream, bool with_conditional = true);
// One expression, or several with commas between them as a tuple, up to the end of the tag or `end_name`.
ExpressionPtr parse_tuple(TokenStream& stream, bool with_conditional = true, std::string_view end_name = "");
Filter parse_filter(TokenStream& stream);  // "name(…)", as it stands behind a bar

}  // namespace fathom::jinja
