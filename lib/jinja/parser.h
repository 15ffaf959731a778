// A template's source to its syntax tree.
#pragma once

#include <string>
#include <string_view>

#include "jinja/ast.h"

namespace fathom::jinja {

// Throws Error ("origin:line: …") where Jinja's parser or compiler would, and for what is not in the subset.
Syntax parse(std::string_view source, const std::string& origin);

}  // namespace fathom::jinja
