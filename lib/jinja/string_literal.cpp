// Escapes and numbers by the rules of Python's source, as Jinja's lexer applies them.
#include "jinja/string_literal.h"

#include <array>
#include <cstdio>
#include <utility>

#include "jinja/text.h"

namespace fathom::jinja {
namespace {

bool is_digit_of(char c, int base) {
  if (base == 16) return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  return c >= '0' && c < '0' + base;
}

// End of digits with single underscores between them, from `at`; `at` where there is none.
size_t end_of_digits(std::string_view source, size_t at, int base, bool leading_underscore) {
  size_t end = at;
  while (end < source.size()) {
    const bool underscore = source[end] == '_' && (end > at || leading_underscore);
    const size_t digit = end + (underscore ? 1 : 0);
    if (digit >= source.size() || !is_digit_of(source[digit], base)) break;
    end = digit + 1;
  }
  return end;
}

// What backslashreplace makes of a character beyond ASCII: \xe9 without its backslash.
std::string escape_name(char32_t character) {
  std::array<char, 12> name{};
  std::snprintf(name.data(), name.size(),
                character < 0x100     ? "x%02x"
                : character < 0x10000 ? "u%04x"
                                      : "U%08x",
                static_cast<unsigned>(character));
  return name.data();
}

char simple_escape(char c) {
  constexpr std::pair<char, char> kEscapes[] = {{'n', '\n'}, {'t', '\t'}, {'r', '\r'},  {'a', '\a'},  {'b', '\b'},
                                                {'f', '\f'}, {'v', '\v'}, {'\\', '\\'}, {'\'', '\''}, {'"', '"'}};
  for (const auto& [name, character] : kEscapes) {
    if (name == c) return character;
  }
  return 0;
}

}  // namespace

std::string unescape(std::string_view body, std::string& problem) {
  std::string text;
  for (size_t at = 0; at < body.size();) {
    if (body[at] != '\\') {
      text += body[at++];
      continue;
    }
    const char c = body[++at];  // the lexer leaves no backslash at the end
    const size_t size = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (size > 0 || (c >= '0' && c <= '7')) {
      const int base = size > 0 ? 16 : 8;
      size_t end = at + (size > 0 ? 1 : 0);
      const size_t start = end, limit = start + (size > 0 ? size : 3);
      uint32_t code = 0;
      for (; end < limit && end < body.size() && is_digit_of(body[end], base); ++end) {
        const int digit = body[end] <= '9' ? body[end] - '0' : (body[end] | 0x20) - 'a' + 10;
        code = code * static_cast<uint32_t>(base) + static_cast<uint32_t>(digit);
      }
      if (size > 0 && end < limit) problem = std::string("truncated \\") + c + " escape";
      if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) problem = "illegal Unicode character in a \\ escape";
      if (!problem.empty()) return "";
      append_character(text, code);
      at = end;
    } else if (c == 'N') {
      problem = "\\N{…} escapes are not supported";
      return "";
    } else if (c == '\n') {
      ++at;
    } else if (simple_escape(c) != 0) {
      text += simple_escape(c);
      ++at;
    } else {
      const size_t bytes = character_size(body, at);
      text += '\\';
      text += bytes == 1 ? std::string(1, c) : escape_name(to_characters(body.substr(at, bytes)).front());
      at += bytes;
    }
  }
  return text;
}

NumberLiteral scan_number(std::string_view source, size_t at) {
  const auto letter = [&](size_t i) { return i < source.size() ? static_cast<char>(source[i] | 0x20) : '\0'; };
  const bool after_dot = at > 0 && source[at - 1] == '.';
  const size_t whole = end_of_digits(source, at, 10, false);
  const auto exponent = [&](size_t from) {
    if (letter(from) != 'e') return from;
    const size_t digits =
        from + 1 + (from + 1 < source.size() && (source[from + 1] == '+' || source[from + 1] == '-') ? 1 : 0);
    const size_t end = end_of_digits(source, digits, 10, false);
    return end > digits ? end : from;
  };
  if (!after_dot) {
    size_t fraction = whole;
    if (whole + 1 < source.size() && source[whole] == '.' && is_digit_of(source[whole + 1], 10)) {
      fraction = end_of_digits(source, whole + 1, 10, false);
    }
    const size_t end = exponent(fraction);
    if (end > whole) return {end - at, true};
  }
  if (source[at] == '0') {
    for (const auto& [mark, base] : {std::pair{'b', 2}, {'o', 8}, {'x', 16}}) {
      const size_t end = end_of_digits(source, at + 2, base, true);
      if (letter(at + 1) == mark && end > at + 2) return {end - at, false};
    }
    size_t end = at + 1;  // zeros alone
    while (end < source.size()) {
      const size_t zero = end + (source[end] == '_' ? 1 : 0);
      if (zero >= source.size() || source[zero] != '0') break;
      end = zero + 1;
    }
    return {end - at, false};
  }
  return {whole - at, false};
}

}  // namespace fathom::jinja
