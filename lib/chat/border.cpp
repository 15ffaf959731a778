// By the bytes alone: templates say nowhere which part of what they write is whose.
#include "chat/border.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "jinja/text.h"

namespace fathom::chat {
namespace {

constexpr size_t kLongestTag = 64;  // bytes

bool is_in_word(char byte) {
  const auto value = static_cast<unsigned char>(byte);
  return value >= 0x80 || std::isalnum(value) != 0 || byte == '_';
}

// The tag that is still open at the end of the text; npos: none.
size_t open_tag(std::string_view text) {
  const size_t far = text.size() > kLongestTag ? text.size() - kLongestTag : 0;
  const size_t last = text.find_last_of("<>[]");
  const bool is_open = last != std::string_view::npos && last >= far && (text[last] == '<' || text[last] == '[');
  return is_open ? last : std::string_view::npos;
}

// For each beginning of the pattern, the longest shorter one that it ends with (Knuth, Morris, Pratt).
std::vector<size_t> borders_of(std::string_view pattern) {
  std::vector<size_t> borders(pattern.size() + 1, 0);
  for (size_t i = 1, known = 0; i < pattern.size(); ++i) {
    while (known > 0 && pattern[i] != pattern[known]) known = borders[known];
    if (pattern[i] == pattern[known]) ++known;
    borders[i + 1] = known;
  }
  return borders;
}

}  // namespace

std::string_view tag_at_end(std::string_view text) {
  if (!text.ends_with('>') && !text.ends_with(']')) return "";
  const size_t open = open_tag(text.substr(0, text.size() - 1));
  return open == std::string_view::npos ? "" : text.substr(open);
}

std::string_view name_of_tag(std::string_view tag) {
  const auto begin = std::find_if(tag.begin(), tag.end(), is_in_word);
  return {begin, std::find_if_not(begin, tag.end(), is_in_word)};
}

std::string_view without_blanks_behind(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);  // npos + 1 is 0
}
std::string_view without_blanks_before(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kBlanks), text.size()));
}

size_t end_of_prompt(std::string_view prompt, std::string_view whole) {
  const auto parted = std::mismatch(prompt.begin(), prompt.end(), whole.begin(), whole.end());
  size_t at = static_cast<size_t>(parted.first - prompt.begin());
  if (at == prompt.size()) return at;
  if (const size_t tag = open_tag(prompt.substr(0, at)); tag != std::string_view::npos) return tag;
  const bool goes_on = is_in_word(prompt[at]) || (at < whole.size() && is_in_word(whole[at]));
  while (goes_on && at > 0 && is_in_word(prompt[at - 1])) --at;
  return at;
}

std::optional<PromptPlace> find_prompt(std::string_view text, std::string_view prompt, size_t shared, Which which) {
  const std::vector<size_t> borders = borders_of(prompt);
  size_t longest = 0, begin = 0;
  for (size_t at = 0, known = 0; at < text.size(); ++at) {
    while (known > 0 && (known == prompt.size() || text[at] != prompt[known])) known = borders[known];
    if (!prompt.empty() && text[at] == prompt[known]) ++known;
    if (known == 0 || known < longest || (known == longest && which == Which::kFirst)) continue;
    longest = known;
    begin = at + 1 - known;
  }
  const size_t size = end_of_prompt(prompt, text.substr(begin));
  if (size <= shared || without_blanks_before(prompt.substr(0, size)).empty()) return std::nullopt;
  return PromptPlace{begin, begin + size};
}

size_t end_of_turn(std::string_view text, std::string_view said) {
  const std::string_view written = without_blanks_behind(text),
                         last = without_blanks_before(without_blanks_behind(said));
  const size_t found = jinja::find_text(written, last);
  // Of a turn that says nothing, all that is written stands for its end.
  const bool ends_with_it = found != std::string_view::npos && found + last.size() == written.size();
  const bool has_end_token = last.empty() ? !written.empty() : !ends_with_it;
  return has_end_token ? written.size() : text.size();
}

}  // namespace fathom::chat
