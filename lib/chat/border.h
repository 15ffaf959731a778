// Borders in rendered conversations: where what a template wrote ends and what somebody says begins.
#pragma once

#include <cstddef>
#include <string_view>

namespace fathom::chat {

// Where `whole` goes its own way: behind the prompt where it begins with it; else before the word or the <tag> in which
// the two part, since neither is said in halves.
size_t end_of_prompt(std::string_view prompt, std::string_view whole);

// Behind the prompt wherever it is, but for blanks before it, in the text that a template writes at the first message;
// 0 where it is not.
size_t end_of_first_prompt(std::string_view prompt, std::string_view text);

// Where the turn that `text` holds ends: behind its end token, without the line break that templates put between turns;
// but where there is no such token, that line break is what ends the turn. said: the end of what the message holds.
size_t end_of_turn(std::string_view text, std::string_view said);

}  // namespace fathom::chat
