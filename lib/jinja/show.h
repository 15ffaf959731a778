// Values as text: Python's str and repr, and json.dumps.
#pragma once

#include <optional>
#include <string>

#include "jinja/value.h"

namespace fathom::jinja {

std::string to_text(const Value& value, Meter& meter);  // str(); fails where Python would print an address
std::string to_repr(const Value& value, Meter& meter);  // repr()

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // of one level; unset: on one line
  std::string item_separator = ", ", key_separator = ": ";
};
std::string to_json_text(const Value& value, const JsonStyle& style, Meter& meter);

}  // namespace fathom::jinja
