// What is escaped: C0 but \n and \t, DEL, C1, bidirectional formatting, and bytes outside of well-formed UTF-8.
#include "base/terminal.h"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace fathom {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: the text does not begin with a character
};

// Of a text that is not empty; no surrogates, nothing longer than need be.
Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xF0 && lead <= 0xF4  ? 4
                       : lead >= 0xE0 && lead < 0xF0 ? 3
                       : lead >= 0xC2 && lead < 0xE0 ? 2
                                                     : 0;
  if (bytes == 0 || bytes > text.size()) return {};
  uint32_t code = lead & (0xFFU >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return {};
    code = code << 6U | (byte(i) & 0x3FU);
  }
  constexpr std::array<uint32_t, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xD800 && code < 0xE000;
  if (code < kSmallest[bytes] || code > 0x10FFFF || is_surrogate) return {};
  return {code, bytes};
}

bool is_shown_escaped(uint32_t code) {
  if (code == '\n' || code == '\t') return false;
  const bool is_control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  const bool turns_order = (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return is_control || turns_order;
}

void append_escaped(std::string& shown, const char* format, uint32_t code) {
  std::array<char, 12> text{};
  const int size = std::snprintf(text.data(), text.size(), format, code);
  shown.append(text.data(), static_cast<size_t>(size));
}

}  // namespace

std::string shown_in_terminal(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    const size_t bytes = character.bytes == 0 ? 1 : character.bytes;
    if (character.bytes == 0) {
      append_escaped(shown, "\\x%02x", static_cast<unsigned char>(text.front()));
    } else if (!is_shown_escaped(character.code)) {
      shown += text.substr(0, bytes);
    } else {
      // JSON has no \x; of what is escaped here it writes DEL and all beyond as they are.
      append_escaped(shown, character.code < 0x20 ? "\\x%02x" : "\\u%04x", character.code);
    }
    text.remove_prefix(bytes);
  }
  return shown;
}

bool takes_colour(int descriptor) {
  const char* terminal = std::getenv("TERM");
  const char* no_colour = std::getenv("NO_COLOR");
  return ::isatty(descriptor) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb" &&
         (no_colour == nullptr || *no_colour == '\0');
}

}  // namespace fathom
