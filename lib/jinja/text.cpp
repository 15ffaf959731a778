// Python's text methods on UTF-8, by utf8proc and the letters that it maps to one letter where Python has several.
#include "jinja/text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "jinja/special_casing.h"

namespace fathom::jinja {
namespace {

const SpecialCase* special_case(char32_t letter) {
  const auto* found = std::lower_bound(std::begin(kSpecialCases), std::end(kSpecialCases), letter,
                                       [](const SpecialCase& row, char32_t code) { return row.letter < code; });
  return found != std::end(kSpecialCases) && found->letter == letter ? found : nullptr;
}

utf8proc_category_t category(char32_t character) { return utf8proc_category(static_cast<utf8proc_int32_t>(character)); }
bool is_upper(char32_t character) { return category(character) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t character) { return category(character) == UTF8PROC_CATEGORY_LL; }
bool is_cased(char32_t character) {
  return is_upper(character) || is_lower(character) || category(character) == UTF8PROC_CATEGORY_LT;
}
bool is_alpha(char32_t character) {
  const utf8proc_category_t kind = category(character);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}
bool is_decimal(char32_t character) { return category(character) == UTF8PROC_CATEGORY_ND; }
bool is_digit(char32_t character) {
  return is_decimal(character) || std::any_of(std::begin(kOtherDigits), std::end(kOtherDigits), [&](const auto& range) {
           return range[0] <= character && character <= range[1];
         });
}
bool is_number(char32_t character) {
  const utf8proc_category_t kind = category(character);
  return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO;
}

// Unicode's Case_Ignorable: passed over in the search for a sigma's neighbours.
bool is_case_ignorable(char32_t character) {
  constexpr std::u32string_view kInsideWords =
      U"'.:\u00B7\u0387\u055F\u05F4\u2018\u2019\u2024\u2027\uFE13\uFE52\uFE55\uFF07\uFF0E\uFF1A";
  switch (category(character)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return kInsideWords.find(character) != std::u32string_view::npos;
  }
}

bool ends_word(const std::vector<char32_t>& characters, size_t at) {
  size_t before = at;
  while (before > 0 && is_case_ignorable(characters[before - 1])) --before;
  if (before == 0 || !is_cased(characters[before - 1])) return false;
  size_t after = at + 1;
  while (after < characters.size() && is_case_ignorable(characters[after])) ++after;
  return after == characters.size() || !is_cased(characters[after]);
}

void append_lower(std::string& text, const std::vector<char32_t>& characters, size_t at) {
  const char32_t character = characters[at];
  if (character == 0x130) {
    text += "i\u0307";
  } else if (character == 0x3A3) {
    append_character(text, ends_word(characters, at) ? 0x3C2 : 0x3C3);
  } else {
    append_character(text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character))));
  }
}

void append_title(std::string& text, char32_t character) {
  const SpecialCase* special = special_case(character);
  if (special != nullptr && !special->title.empty()) {
    text += special->title;
  } else {
    append_character(text, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(character))));
  }
}

char32_t decode(std::string_view text, size_t at, size_t size) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  if (size == 1) return byte(0);
  char32_t character = byte(0) & (0xFF >> (size + 1));
  for (size_t i = 1; i < size; ++i) character = character << 6 | (byte(i) & 0x3F);
  return character;
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

bool is_ascii(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0x80) != 0; });
}

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

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::string_view strip(std::string_view text, Ends ends) { return strip_if(text, ends, is_space); }

std::string_view strip(std::string_view text, Ends ends, std::string_view characters) {
  std::vector<char32_t> set = to_characters(characters);
  std::sort(set.begin(), set.end());
  return strip_if(text, ends, [&](char32_t c) { return std::binary_search(set.begin(), set.end(), c); });
}

std::vector<std::string_view> split_lines(std::string_view text, Meter& meter, bool keep_ends) {
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
    lines.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string upper(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (char32_t character : to_characters(text)) {
    const SpecialCase* special = special_case(character);
    if (special != nullptr && !special->upper.empty()) {
      result += special->upper;
    } else {
      append_character(result, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(character))));
    }
  }
  return result;
}

std::string lower(std::string_view text) {
  const std::vector<char32_t> characters = to_characters(text);
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < characters.size(); ++i) append_lower(result, characters, i);
  return result;
}

std::string title(std::string_view text) {
  const std::vector<char32_t> characters = to_characters(text);
  std::string result;
  bool inside_word = false;
  for (size_t i = 0; i < characters.size(); ++i) {
    inside_word ? append_lower(result, characters, i) : append_title(result, characters[i]);
    inside_word = is_cased(characters[i]);
  }
  return result;
}

std::string capitalize(std::string_view text) {
  const std::vector<char32_t> characters = to_characters(text);
  std::string result;
  for (size_t i = 0; i < characters.size(); ++i) {
    i == 0 ? append_title(result, characters[i]) : append_lower(result, characters, i);
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

bool is_class(std::string_view text, Class wanted) {
  if (text.empty()) return false;
  const std::vector<char32_t> characters = to_characters(text);
  const auto all = [&](auto predicate) { return std::all_of(characters.begin(), characters.end(), predicate); };
  const auto none = [&](auto predicate) { return std::none_of(characters.begin(), characters.end(), predicate); };
  switch (wanted) {
    case Class::kAlpha:
      return all(is_alpha);
    case Class::kDigit:
      return all(is_digit);
    case Class::kDecimal:
      return all(is_decimal);
    case Class::kAlnum:
      return all([](char32_t c) { return is_alpha(c) || is_number(c); });
    case Class::kSpace:
      return all(is_space);
    case Class::kUpper:
      return !none(is_cased) && none([](char32_t c) { return is_cased(c) && !is_upper(c); });
    case Class::kLower:
      return !none(is_cased) && none([](char32_t c) { return is_cased(c) && !is_lower(c); });
  }
  return false;
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
