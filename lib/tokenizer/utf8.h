// UTF-8: characters of text that is well-formed, and what to do about text that is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tokenizer/offset_map.h"

namespace fathom::tokenizer {

struct Character {
  char32_t code;
  uint32_t bytes;  // that it takes up
};

// The character at `at`, of text known to be well-formed.
inline Character character_at(const char* at) {
  auto byte = [at](int i) { return static_cast<char32_t>(static_cast<unsigned char>(at[i])); };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(first & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (first < 0xF0) return {(first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}

// Of a text that is well-formed up to `at` > 0: where the last character before it begins.
inline size_t previous_character(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && (text[at] & 0xC0) == 0x80);
  return at;
}

void append_character(std::string& text, char32_t code);

// The longest prefix that is well-formed (The Unicode Standard, table 3-7), in bytes.
size_t well_formed_prefix(std::string_view text);
// Whether the text, which is not empty, could be the beginning of one character that is cut off.
bool is_cut_off(std::string_view text);
// With each maximal ill-formed part replaced by U+FFFD, as Python's errors="replace" and Rust's lossy strings do.
// origins, if set, learns where the bytes came from.
std::string replace_ill_formed(std::string_view text, OffsetMap* origins = nullptr);

}  // namespace fathom::tokenizer
