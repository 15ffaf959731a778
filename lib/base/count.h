// Large counts as people write them: "2T" tokens, "7B" parameters.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fathom {

// "300K", "1.5M", "7B", "2T" (powers of 1000, either case) or a plain number; nullopt for anything else, for numbers
// below 0 and those above 10^18.
std::optional<double> parse_count(std::string_view text);
// Three digits and a letter: "2T", "6.74B", "151K", "12".
std::string short_count(double count);

}  // namespace fathom
