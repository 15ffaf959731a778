// How byte-level vocabularies spell bytes: each of the 256 as one visible character ("Ġ" is a blank).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fathom::tokenizer {

// The bytes that a stored token stands for; nullopt where it has a character that spells no byte. `token` is
// well-formed UTF-8.
std::optional<std::string> bytes_spelled_by(std::string_view token);
// The inverse.
std::string spelling_of(std::string_view bytes);

}  // namespace fathom::tokenizer
