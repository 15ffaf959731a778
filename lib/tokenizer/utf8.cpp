// Well-formed UTF-8 by the table of the Unicode Standard, and U+FFFD for the rest.
#include "tokenizer/utf8.h"

#include <cstring>

namespace fathom::tokenizer {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

enum class Form { kWhole, kBroken, kCutOff };

struct Sequence {
  Form form;
  size_t bytes;  // of the character, or of the maximal ill-formed part
};

Sequence sequence_at(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {Form::kWhole, 1};
  if (first < 0xC2 || first > 0xF4) return {Form::kBroken, 1};
  const size_t bytes = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte is narrowed where the code would be overlong, a surrogate or beyond U+10FFFF.
  const unsigned char lowest = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char highest = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < bytes; ++i) {
    if (at + i == text.size()) return {Form::kCutOff, i};
    const bool fits = i == 1 ? lowest <= byte(1) && byte(1) <= highest : (byte(i) & 0xC0) == 0x80;
    if (!fits) return {Form::kBroken, i};
  }
  return {Form::kWhole, bytes};
}

}  // namespace

void append_character(std::string& text, char32_t code) {
  auto put = [&](char32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (code < 0x80) {
    put(code);
    return;
  }
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
    }
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

size_t well_formed_prefix(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight = 0;
    if (at + sizeof eight <= text.size()) {
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & kHighBits) == 0) {
        at += sizeof eight;
        continue;
      }
    }
    // Where the second byte may be any that goes on, the table is not needed.
    const auto first = static_cast<unsigned char>(text[at]);
    auto goes_on = [&](size_t i) { return at + i < text.size() && (text[at + i] & 0xC0) == 0x80; };
    if (first >= 0xC2 && first <= 0xDF && goes_on(1)) {
      at += 2;
    } else if (first >= 0xE1 && first <= 0xEC && goes_on(1) && goes_on(2)) {
      at += 3;
    } else {
      const Sequence sequence = sequence_at(text, at);
      if (sequence.form != Form::kWhole) break;
      at += sequence.bytes;
    }
  }
  return at;
}

bool is_cut_off(std::string_view text) {
  const Sequence sequence = sequence_at(text, 0);
  return sequence.form == Form::kCutOff && sequence.bytes == text.size();
}

std::string replace_ill_formed(std::string_view text, OffsetMap* origins) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t whole = well_formed_prefix(text.substr(at));
    if (origins != nullptr) origins->copied(result.size(), at);
    result.append(text.substr(at, whole));
    at += whole;
    if (at == text.size()) break;
    if (origins != nullptr) origins->rewritten(result.size(), at);
    result += kReplacement;
    at += sequence_at(text, at).bytes;
  }
  return result;
}

}  // namespace fathom::tokenizer
