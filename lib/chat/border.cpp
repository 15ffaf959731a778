// By the bytes alone: templates say nowhere which part of what they write is whose.
#include "chat/border.h"

#include <algorithm>
#include <cctype>

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

constexpr const char* kBlanks = " \t\r\n";

std::string_view without_blanks_behind(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);  // npos + 1 is 0
}
std::string_view without_blanks_before(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kBlanks), text.size()));
}

}  // namespace

size_t end_of_prompt(std::string_view prompt, std::string_view whole) {
  const auto parted = std::mismatch(prompt.begin(), prompt.end(), whole.begin(), whole.end());
  size_t at = static_cast<size_t>(parted.first - prompt.begin());
  if (at == prompt.size()) return at;
  if (const size_t tag = open_tag(prompt.substr(0, at)); tag != std::string_view::npos) return tag;
  const bool goes_on = is_in_word(prompt[at]) || (at < whole.size() && is_in_word(whole[at]));
  while (goes_on && at > 0 && is_in_word(prompt[at - 1])) --at;
  return at;
}

size_t end_of_first_prompt(std::string_view prompt, std::string_view text) {
  prompt = without_blanks_before(prompt);
  const size_t found = jinja::find_text(text, prompt);
  return prompt.empty() || found == std::string_view::npos ? 0 : found + prompt.size();
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
