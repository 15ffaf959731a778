// The methods of Python's str.
#pragma once

#include <string>

#include "jinja/filters.h"

namespace fathom::jinja {

bool is_text_method(const std::string& name);  // whether Python's str has it
// Fails for a method that is not in the subset.
Value call_text_method(const Value& receiver, const std::string& name, CallArguments arguments, Meter& meter);
// str.replace; count < 0: all.
std::string replace_text(const std::string& text, const std::string& old, const std::string& by, int64_t count,
                         Meter& meter);

}  // namespace fathom::jinja
