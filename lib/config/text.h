// Text of a config: what may stand in it, and how it is written and told.
#pragma once

#include <string>
#include <string_view>

namespace fathom::config {

// The first byte that cannot stand in a config: not well-formed UTF-8, or a control character (with `lines`, other than
// tab, line feed and carriage return); text.size() if there is none.
size_t first_bad_byte(std::string_view text, bool lines);
// True for well-formed UTF-8 without control characters.
bool is_printable_text(std::string_view text);
// A YAML scalar that reads back as this text, which must be printable: plain where that is safe, else in double quotes.
std::string quote(std::string_view text);
// Text of a stranger for a message: control characters replaced, cut at 64 bytes.
std::string printable(std::string_view text);
// ASCII letters made small, the rest as it is.
std::string lower_case(std::string_view text);

}  // namespace fathom::config
