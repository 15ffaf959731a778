// UTF-8 by its definition (RFC 3629), and YAML scalars by the narrow part of it that every reader agrees on.
#include "config/text.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace fathom::config {
namespace {

constexpr size_t kLongestShown = 64;

// The length of the well-formed character that starts here; 0 if there is none.
size_t character_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto first = byte(0);
  const size_t length = first < 0x80   ? 1
                        : first < 0xC2 ? 0
                        : first < 0xE0 ? 2
                        : first < 0xF0 ? 3
                        : first < 0xF5 ? 4
                                       : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and what lies beyond U+10FFFF.
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F)) return 0;
  if ((first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F)) return 0;
  return length;
}

bool safe_as_plain(std::string_view text) {
  constexpr std::array kWords{"null", "Null", "NULL", "true", "false", "~", ".", "-", "---", "..."};
  if (text.empty() || text[0] == '-' || std::find(kWords.begin(), kWords.end(), text) != kWords.end()) return false;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || c == '_' || c == '.' || c == '/' || c == '-' || c == '+');
  });
}

}  // namespace

size_t first_bad_byte(std::string_view text, bool lines) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = character_length(text.substr(at));
    const char c = text[at];
    const bool control =
        (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) && !(lines && (c == '\n' || c == '\r' || c == '\t'));
    if (length == 0 || control) break;
    at += length;
  }
  return at;
}

bool is_printable_text(std::string_view text) { return first_bad_byte(text, /*lines=*/false) == text.size(); }

std::string quote(std::string_view text) {
  if (safe_as_plain(text)) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

std::string printable(std::string_view text) {
  size_t length = std::min(text.size(), kLongestShown);
  // Cut before a character of several bytes, not inside it.
  while (length < text.size() && length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
  std::string result(text.substr(0, length));
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return length < text.size() ? result + "…" : result;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

}  // namespace fathom::config
