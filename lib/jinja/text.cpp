// Python's text methods on UTF-8, by utf8proc.
#include "jinja/text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace fathom::jinja {
namespace {

utf8proc_category_t category(char32_t character) { return utf8proc_category(static_cast<utf8proc_int32_t>(character)); }
bool is_upper(char32_t character) { return category(character) == UTF8PROC_CATEGORY_LU; }
bool is_title(char32_t character) { return category(character) == UTF8PROC_CATEGORY_LT; }
bool is_lower(char32_t character) { return category(character) == UTF8PROC_CATEGORY_LL; }
bool is_ascii(char32_t character) { return character < 0x80; }
bool is_cased(char32_t character) {
  if (is_ascii(character)) return (character | 0x20) >= U'a' && (character | 0x20) <= U'z';
  return is_upper(character) || is_title(character) || is_lower(character);
}

enum class Case { kUpper, kLower, kTitle };

[[noreturn]] void refuse_case(char32_t character, Meter& meter) {
  std::string text = "the case of the letter ";
  append_character(text, character);
  meter.fail(text + " cannot be changed alone, which is not supported");
}

// utf8proc knows one letter for each. Letters that have none in the other case may become several there, as ß and ﬁ do.
void append_in_case(std::string& text, char32_t character, Case wanted, Meter& meter) {
  constexpr char32_t kSharpS = 0xDF, kDottedI = 0x130, kIotaBelow = 0x345, kSigma = 0x3A3;
  if (is_ascii(character)) {
    if (is_cased(character)) character = wanted == Case::kLower ? character | 0x20 : character & ~char32_t{0x20};
    return append_character(text, character);
  }
  const auto code = static_cast<utf8proc_int32_t>(character);
  if (wanted == Case::kLower) {
    if (character == kDottedI || character == kSigma) refuse_case(character, meter);
    return append_character(text, static_cast<char32_t>(utf8proc_tolower(code)));
  }
  const auto upper = static_cast<char32_t>(utf8proc_toupper(code)),
             title = static_cast<char32_t>(utf8proc_totitle(code));
  const bool is_alone = !is_cased(character) || is_upper(upper) || (wanted == Case::kTitle && is_title(title));
  if (!is_alone || character == kSharpS || character == kIotaBelow) refuse_case(character, meter);
  append_character(text, wanted == Case::kUpper ? upper : title);
}

char32_t decode(std::string_view text, size_t at, size_t size) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  if (size == 1) return byte(0);
  char32_t character = byte(0) & (0xFF >> (size + 1));
  for (size_t i = 1; i < size; ++i) character = character << 6 | (byte(i) & 0x3F);
  return character;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

template <typename Predicate>
std::string_view strip_if(std::string_view text, Ends ends, const Predicate& goes) {
  size_t begin = 0, end = text.size();
  while (ends != Ends::kRight && begin < end) {
    const size_t size = character_size(text, begin);
    if (!goes(decode(text, begin, size))) break;
    begin += size;
  }
  while (ends != Ends::kLeft && end > begin) {
    size_t start = end - 1;
    while (start > begin && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    if (!goes(decode(text, start, end - start))) break;
    end = start;
  }
  return text.substr(begin, end - begin);
}

}  // namespace

size_t well_formed_prefix(std::string_view text) {
  const auto* const bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  size_t at = 0;
  while (at < text.size()) {
    utf8proc_int32_t character = 0;
    const auto rest = static_cast<utf8proc_ssize_t>(text.size() - at);
    const bool is_single = bytes[at] < 0x80;
    const utf8proc_ssize_t size = is_single ? 1 : utf8proc_iterate(bytes + at, rest, &character);
    if (size <= 0) return at;
    at += static_cast<size_t>(size);
  }
  return at;
}

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

size_t character_size(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const size_t size = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  return std::min(size, text.size() - at);
}

size_t byte_of_character(std::string_view text, int64_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += character_size(text, at);
  return at;
}

std::vector<char32_t> to_characters(std::string_view text) {
  std::vector<char32_t> characters;
  characters.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t size = character_size(text, at);
    characters.push_back(decode(text, at, size));
    at += size;
  }
  return characters;
}

void append_character(std::string& text, char32_t character) {
  if (character < 0x80) {
    text += static_cast<char>(character);
    return;
  }
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
}

std::string_view strip(std::string_view text, Ends ends) { return strip_if(text, ends, is_space); }

std::string_view strip(std::string_view text, Ends ends, std::string_view characters) {
  std::vector<char32_t> set = to_characters(characters);
  std::sort(set.begin(), set.end());
  set.erase(std::unique(set.begin(), set.end()), set.end());
  return strip_if(text, ends, [&](char32_t c) { return std::binary_search(set.begin(), set.end(), c); });
}

std::vector<std::string_view> split_lines(std::string_view text, Meter& meter) {
  meter.make(text.size());
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t size = character_size(text, at);
    const char32_t c = decode(text, at, size);
    const bool ends = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    const size_t end = at;
    at += size;
    if (!ends) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    meter.make(sizeof(std::string_view));
    lines.push_back(text.substr(begin, end - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string upper(std::string_view text, Meter& meter) {
  std::string result;
  for (char32_t character : to_characters(text)) append_in_case(result, character, Case::kUpper, meter);
  return result;
}

std::string lower(std::string_view text, Meter& meter) {
  std::string result;
  for (char32_t character : to_characters(text)) append_in_case(result, character, Case::kLower, meter);
  return result;
}

std::string title(std::string_view text, Meter& meter) {
  std::string result;
  bool inside_word = false;
  for (char32_t character : to_characters(text)) {
    append_in_case(result, character, inside_word ? Case::kLower : Case::kTitle, meter);
    inside_word = is_cased(character);
  }
  return result;
}

std::string capitalize(std::string_view text, Meter& meter) {
  std::string result;
  for (char32_t character : to_characters(text)) {
    append_in_case(result, character, result.empty() ? Case::kTitle : Case::kLower, meter);
  }
  return result;
}

size_t find_text(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  // memmem is linear whatever the text is, std::string_view::find is not.
  const void* found = ::memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

char32_t other_character(char32_t c) {
  const auto next = [c](char32_t first, char32_t count) { return first + (c - first + 1) % count; };
  if (c >= U'a' && c <= U'z') return next(U'a', 26);
  if (c >= U'A' && c <= U'Z') return next(U'A', 26);
  if (c >= U'0' && c <= U'9') return next(U'0', 10);
  const utf8proc_category_t kind = category(c);
  const bool is_letter = kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
  if (is_ascii(c) || (!is_letter && kind != UTF8PROC_CATEGORY_ND)) return c;
  for (const char32_t other : {c ^ 1, c ^ 2, c ^ 3}) {  // of the last byte alone
    if (category(other) == kind) return other;
  }
  return c;
}

std::string escaped(std::string_view text) {
  constexpr std::pair<char, std::string_view> kEntities[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
  std::string result;
  for (const char byte : text) {
    const auto* found = std::find_if(std::begin(kEntities), std::end(kEntities),
                                     [&](const auto& entity) { return entity.first == byte; });
    found == std::end(kEntities) ? result.push_back(byte) : static_cast<void>(result.append(found->second));
  }
  return result;
}

std::string text_repr(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  const bool single = text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
  const char quote = single ? '\'' : '"';
  std::string result(1, quote);
  const auto hexadecimal = [&](char32_t c, int digits) {
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) result += kDigits[c >> shift & 15];
  };
  for (char32_t c : to_characters(text)) {
    const utf8proc_category_t kind = category(c);
    // Python's str.isprintable: no controls, no separators but the blank, nothing unassigned.
    const bool printable = kind != UTF8PROC_CATEGORY_CN && (kind < UTF8PROC_CATEGORY_ZS || c == ' ');
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      result += '\\';
      result += static_cast<char>(c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      result += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (printable) {
      append_character(result, c);
    } else {
      result += c < 0x100 ? "\\x" : c < 0x10000 ? "\\u" : "\\U";
      hexadecimal(c, c < 0x100 ? 2 : c < 0x10000 ? 4 : 8);
    }
  }
  return result + quote;
}

}  // namespace fathom::jinja
