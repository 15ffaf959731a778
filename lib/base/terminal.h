// Text from outside, made fit for a terminal. base/log.h and base/output.h send all text through it.
#pragma once

#include <string>
#include <string_view>

namespace fathom {

// The text with its control characters shown instead of sent, so that none moves the cursor, renames the window,
// answers for who sits there or turns the order of what is read: ESC as \x1b, U+009B as \u009b, bidirectional
// embeddings, overrides and isolates as \u202e, bytes that are no UTF-8 as \x9b. Line breaks and tabs stay. What JSON
// text becomes is the same JSON.
std::string shown_in_terminal(std::string_view text);

// Whether the descriptor is a terminal that takes colour (not TERM=dumb, NO_COLOR empty).
bool takes_colour(int descriptor);

}  // namespace fathom
