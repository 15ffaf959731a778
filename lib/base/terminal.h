// Text from outside, made fit for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace fathom {

// The text with its control characters shown instead of sent, so that none moves the cursor, renames the window or
// answers for who sits there: ESC as \x1b, U+009B as \u009b. Line breaks and tabs stay. `text` is whole characters.
std::string shown_in_terminal(std::string_view text);

// What to write of a text from outside: that if the descriptor is a terminal, else the text itself.
std::string fit_for(int descriptor, std::string_view text);

}  // namespace fathom
