// GPT-2's table (bytes_to_unicode): visible Latin-1 characters spell themselves, the other bytes U+0100 and what
// follows.
#include "tokenizer/byte_alphabet.h"

#include <array>

#include "tokenizer/utf8.h"

namespace fathom::tokenizer {
namespace {

constexpr char32_t kFirstSubstitute = 0x100;
constexpr int kSubstitutes = 68;

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int, kFirstSubstitute + kSubstitutes> byte{};

  Alphabet() {
    byte.fill(-1);
    char32_t substitute = kFirstSubstitute;
    for (int value = 0; value < 256; ++value) {
      const bool visible = (value > 0x20 && value < 0x7F) || (value > 0xA0 && value != 0xAD);
      character[value] = visible ? static_cast<char32_t>(value) : substitute++;
      byte[character[value]] = value;
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet alphabet;
  return alphabet;
}

}  // namespace

std::optional<std::string> bytes_spelled_by(std::string_view token) {
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    const Character character = character_at(token.data() + at);
    at += character.bytes;
    if (character.code >= alphabet().byte.size() || alphabet().byte[character.code] < 0) return std::nullopt;
    bytes += static_cast<char>(static_cast<unsigned char>(alphabet().byte[character.code]));
  }
  return bytes;
}

std::string spelling_of(std::string_view bytes) {
  std::string token;
  for (const char byte : bytes) append_character(token, alphabet().character[static_cast<unsigned char>(byte)]);
  return token;
}

}  // namespace fathom::tokenizer
