// Strings and numbers as Python and Jinja write them in source.
#pragma once

#include <string>
#include <string_view>

namespace fathom::jinja {

// Python's escapes (\n, \x41, \u2581 and so on), as Jinja's "unicode-escape" reads them. problem: set where it fails.
std::string unescape(std::string_view body, std::string& problem);

struct NumberLiteral {
  size_t size = 0;  // bytes
  bool is_float = false;
};
// The number that begins at `at`, where a digit stands: 1_000, 0x1F, 1.5e-3.
NumberLiteral scan_number(std::string_view source, size_t at);

}  // namespace fathom::jinja
