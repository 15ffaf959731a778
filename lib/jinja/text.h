// Python's text methods on UTF-8: what counts is characters (code points), not bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/meter.h"

namespace fathom::jinja {

size_t well_formed_prefix(std::string_view text);  // bytes before the first that is not UTF-8
int64_t count_characters(std::string_view text);
std::vector<char32_t> to_characters(std::string_view text);
void append_character(std::string& text, char32_t character);
size_t character_size(std::string_view text, size_t at);         // bytes of the character that begins there
size_t byte_of_character(std::string_view text, int64_t index);  // where the index-th character begins, or the end

// Both ends; of blanks (as str.isspace has them), or of any of `characters`.
enum class Ends { kBoth, kLeft, kRight };
std::string_view strip(std::string_view text, Ends ends);
std::string_view strip(std::string_view text, Ends ends, std::string_view characters);
std::vector<std::string_view> split_lines(std::string_view text, Meter& meter);  // each without its line break

// str.upper and so on. They fail for the few letters that become several, or go by the letters beside them.
std::string upper(std::string_view text, Meter& meter);
std::string lower(std::string_view text, Meter& meter);
std::string title(std::string_view text, Meter& meter);
std::string capitalize(std::string_view text, Meter& meter);

// Position of `part` at or after `from`, in time proportional to the sizes; npos if there is none.
size_t find_text(std::string_view text, std::string_view part, size_t from = 0);

// Another letter or digit in the place of one, of the same category and as many bytes; all else is itself.
char32_t other_character(char32_t character);

// & < > ' " as HTML's entities.
std::string escaped(std::string_view text);

// A text as Python writes it: quoted, escaped.
std::string text_repr(std::string_view text);

}  // namespace fathom::jinja
