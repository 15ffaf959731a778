// Values as text: Python's str and repr, and json.dumps.
#pragma once

#include <optional>
#include <string>

#include "jinja/value.h"

namespace fathom::jinja {

std::string to_text(const Value& value, Meter& meter);  // str(); fails where Python would print an address
// The same as a part of what |safe or |escape returned: escaped, unless they returned it itself.
std::string to_escaped_text(const Value& value, Meter& meter);
// One or the other, by whether it becomes a part of such a text.
std::string to_part_of(const Value& whole, const Value& value, Meter& meter);
std::string to_repr(const Value& value, Meter& meter);  // repr()

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // of one level; unset: on one line
  std::string item_separator = ", ", key_separator = ": ";
};
std::string to_json_text(const Value& value, const JsonStyle& style, Meter& meter);

}  // namespace fathom::jinja
