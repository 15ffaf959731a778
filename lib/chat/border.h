// Borders in rendered conversations: where what a template wrote ends and what somebody says begins.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace fathom::chat {

inline constexpr const char* kBlanks = " \t\r\n";

// Where `whole` goes its own way: behind the prompt where it begins with it; else before the word or the <tag> in which
// the two part, since neither is said in halves.
size_t end_of_prompt(std::string_view prompt, std::string_view whole);

// Where the longest beginning of the prompt that is anywhere in the text lies, and ends as end_of_prompt has it; of
// several places the first or last. nullopt where nothing but blanks, or no more than `shared` bytes of it, is there.
// In time proportional to the sizes.
struct PromptPlace {
  size_t begin = 0, end = 0;
};
enum class Which { kFirst, kLast };
std::optional<PromptPlace> find_prompt(std::string_view text, std::string_view prompt, size_t shared, Which which);

// The <tag> or [tag] with which the text ends, and a tag's name; empty where there is none.
std::string_view tag_at_end(std::string_view text);
std::string_view name_of_tag(std::string_view tag);

std::string_view without_blanks_behind(std::string_view text);
std::string_view without_blanks_before(std::string_view text);

// Where the turn that `text` holds ends: behind its end token, without the line break that templates put between turns;
// but where there is no such token, that line break is what ends the turn. said: the end of what the message holds.
size_t end_of_turn(std::string_view text, std::string_view said);

}  // namespace fathom::chat
