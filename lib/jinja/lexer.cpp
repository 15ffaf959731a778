// The rules of Jinja's lexer (jinja2/lexer.py, 3.1) for {{ }}, {% %} and {# #}.

#include <algorithm>
#include <array>
#include <charconv>

#include "jinja/text.h"
#include "jinja/token_stream.h"

namespace fathom::jinja {
namespace {

using Type = Token::Type;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) { return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Line breaks as \n; one at the very end is dropped.
std::string normalized(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& origin) : source_(normalized(source)), origin_(origin) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_text();
    add(Type::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { fail_at(origin_, line_, what); }
  char char_at(size_t at) const { return at < source_.size() ? source_[at] : '\0'; }
  bool at(std::string_view text) const { return std::string_view(source_).substr(at_, text.size()) == text; }
  void add(Type type, std::string text) { tokens_.push_back({type, std::move(text), line_}); }
  void skip(size_t bytes) {
    const std::string_view taken = std::string_view(source_).substr(at_, bytes);
    line_ += static_cast<int>(std::count(taken.begin(), taken.end(), '\n'));
    at_ += bytes;
  }
  void skip_blanks() {
    const std::string_view rest = std::string_view(source_).substr(at_);
    skip(rest.size() - strip(rest, Ends::kLeft).size());
  }

  // Text up to the next tag, and the tag.
  void read_text() {
    size_t tag = at_;
    const auto begins = [&] { return char_at(tag + 1) == '{' || char_at(tag + 1) == '%' || char_at(tag + 1) == '#'; };
    while (tag < source_.size() && !(source_[tag] == '{' && begins())) {
      tag = std::min(source_.find('{', tag + 1), source_.size());
    }
    if (tag == source_.size()) return take_text(tag, 0, false);
    const char kind = source_[tag + 1];
    const char sign = char_at(tag + 2) == '-' || char_at(tag + 2) == '+' ? char_at(tag + 2) : '\0';
    take_text(tag, sign, kind != '{');
    skip(sign != 0 ? 3 : 2);
    if (kind == '#') return read_comment();
    if (kind == '%' && is_raw()) fail("the tag 'raw' is not supported in chat templates");
    add(Type::kOperator, kind == '{' ? "{{" : "{%");
    read_tag(kind == '{');
  }

  // sign: of the tag that follows. strips: whether blanks before it go if they begin its line.
  void take_text(size_t end, char sign, bool strips) {
    std::string_view text = std::string_view(source_).substr(at_, end - at_);
    if (sign == '-') {
      text = strip(text, Ends::kRight);
    } else if (sign != '+' && strips) {
      const size_t line_start = text.rfind('\n') == std::string_view::npos ? 0 : text.rfind('\n') + 1;
      const bool begins_line = line_start > 0 || starts_line_;
      if (begins_line && strip(text.substr(line_start), Ends::kLeft).empty()) text = text.substr(0, line_start);
    }
    if (!text.empty()) add(Type::kText, std::string(text));
    skip(end - at_);
  }

  // The end of a tag at the current place: "%}" with its sign, and the blanks or the line break that it swallows.
  bool read_end(std::string_view mark, bool trims) {
    const size_t sign = char_at(at_) == '-' || (char_at(at_) == '+' && trims) ? 1 : 0;
    if (std::string_view(source_).substr(std::min(at_ + sign, source_.size()), 2) != mark) return false;
    const char control = sign != 0 ? source_[at_] : '\0';
    skip(sign + 2);
    if (control == '-') {
      skip_blanks();
    } else if (control != '+' && trims && at("\n")) {
      skip(1);
    }
    starts_line_ = source_[at_ - 1] == '\n';
    return true;
  }

  void read_comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) fail("Missing end of comment tag");
    const bool sign = end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+');
    skip(end - (sign ? 1 : 0) - at_);
    read_end("#}", true);
  }

  // After "{%": whether this is a raw block, which a lexer that knows none would read as tags.
  bool is_raw() const {
    const std::string_view rest = strip(std::string_view(source_).substr(at_), Ends::kLeft);
    return rest.starts_with("raw") && (rest.size() == 3 || !is_name(rest[3]));
  }

  void read_tag(bool prints) {
    std::string open;  // brackets that are not closed yet
    while (at_ < source_.size()) {
      if (open.empty() && read_end(prints ? "}}" : "%}", !prints)) {
        add(Type::kOperator, prints ? "}}" : "%}");
        return;
      }
      const char c = source_[at_];
      const size_t blanks = at_;
      skip_blanks();
      if (at_ > blanks) continue;
      if (is_digit(c)) {
        read_number();
      } else if (is_name(c)) {
        size_t end = at_;
        while (end < source_.size() && is_name(source_[end])) ++end;
        if (end < source_.size() && (source_[end] & 0x80) != 0)
          fail("names with letters beyond ASCII are not supported");
        add(Type::kName, source_.substr(at_, end - at_));
        at_ = end;
      } else if (c == '\'' || c == '"') {
        read_string(c);
      } else {
        read_operator(open);
      }
    }
  }

  size_t end_of_digits(size_t at) const {
    return std::min(source_.find_first_not_of("0123456789", at), source_.size());
  }

  // 12, 1.5 and 1e3; after a point ("items.0.1") digits alone.
  void read_number() {
    const bool after_point = at_ > 0 && source_[at_ - 1] == '.';
    const size_t whole = end_of_digits(at_);
    size_t end = whole;
    if (!after_point && char_at(end) == '.' && is_digit(char_at(end + 1))) end = end_of_digits(end + 1);
    if (!after_point && (char_at(end) == 'e' || char_at(end) == 'E')) {
      const size_t digits = end + (char_at(end + 1) == '-' || char_at(end + 1) == '+' ? 2 : 1);
      if (is_digit(char_at(digits))) end = end_of_digits(digits);
    }
    const bool has_leading_zero = source_[at_] == '0' && whole - at_ > 1;
    if (has_leading_zero || is_name(char_at(end))) {
      fail("numbers such as 0x1F, 1_000 and 007 are not supported, nor names that begin with a digit");
    }
    add(end > whole ? Type::kFloat : Type::kInteger, source_.substr(at_, end - at_));
    at_ = end;
  }

  void read_string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) {
      fail(std::string("unexpected char ") + text_repr(std::string(1, quote)) + ": the string does not end");
    }
    std::string text;
    for (size_t at = at_ + 1; at < end;) {
      if (source_[at] == '\\') {
        read_escape(++at, text);
      } else {
        text += source_[at++];
      }
    }
    add(Type::kString, std::move(text));
    skip(end + 1 - at_);
  }

  // What stands behind a backslash, in Python's way: \n, \x41, \u2581; of letters that mean nothing the backslash
  // stays.
  void read_escape(size_t& at, std::string& text) const {
    constexpr std::string_view kNames = "ntrabfv\\'\"", kMeant = "\n\t\r\a\b\f\v\\'\"";
    const char c = source_[at++];
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits > 0) {
      uint32_t code = 0;
      const char *begin = source_.data() + at, *end = std::min(begin + digits, source_.data() + source_.size());
      if (std::from_chars(begin, end, code, 16).ptr != begin + digits)
        fail(std::string("truncated \\") + c + " escape");
      if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) fail("illegal Unicode character in a \\ escape");
      append_character(text, code);
      at += digits;
    } else if (const size_t found = kNames.find(c); found != std::string_view::npos) {
      text += kMeant[found];
    } else if (is_digit(c) || c == 'N' || c == '\n' || (c & 0x80) != 0) {
      fail("this escape after a \\ is not supported, but \\n, \\x41, \\u00e9 and the like are");
    } else {
      text += {'\\', c};
    }
  }

  void read_operator(std::string& open) {
    constexpr std::array<std::string_view, 26> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                             "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                             ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    const auto* found =
        std::find_if(kOperators.begin(), kOperators.end(), [&](std::string_view text) { return at(text); });
    if (found == kOperators.end()) {
      fail("unexpected char " + text_repr(std::string_view(source_).substr(at_, character_size(source_, at_))));
    }
    constexpr std::string_view kOpening = "([{", kClosing = ")]}";
    const size_t opening = kOpening.find(*found), closing = kClosing.find(*found);
    if (opening != std::string_view::npos) open += kClosing[opening];
    if (closing != std::string_view::npos) {
      if (open.empty()) fail("unexpected '" + std::string(*found) + "'");
      if (open.back() != kClosing[closing]) {
        fail("unexpected '" + std::string(*found) + "', expected '" + std::string(1, open.back()) + "'");
      }
      open.pop_back();
    }
    add(Type::kOperator, std::string(*found));
    at_ += found->size();
  }

  std::string source_;
  const std::string& origin_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int line_ = 1;
  bool starts_line_ = true;  // the last tag ended with a line break
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, const std::string& origin) {
  if (static_cast<int64_t>(source.size()) > kLargestTemplate) {
    fail_at(origin, 1, "the template is larger than " + std::to_string(kLargestTemplate) + " bytes");
  }
  if (const size_t sound = well_formed_prefix(source); sound < source.size()) {
    const auto line = 1 + std::count(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(sound), '\n');
    fail_at(origin, static_cast<int>(line), "the template is not UTF-8");
  }
  return Lexer(source, origin).run();
}

}  // namespace fathom::jinja
