// str's methods, on UTF-8; positions count characters.
#include "jinja/text_methods.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <vector>

#include "jinja/arguments.h"
#include "jinja/format.h"
#include "jinja/text.h"

namespace fathom::jinja {
namespace {

constexpr size_t kNone = std::string::npos;
using View = std::string_view;

constexpr std::array<View, 47> kMethods = {
    "capitalize",   "casefold",   "center",    "count",       "encode",    "endswith",     "expandtabs",   "find",
    "format",       "format_map", "index",     "isalnum",     "isalpha",   "isascii",      "isdecimal",    "isdigit",
    "isidentifier", "islower",    "isnumeric", "isprintable", "isspace",   "istitle",      "isupper",      "join",
    "ljust",        "lower",      "lstrip",    "maketrans",   "partition", "removeprefix", "removesuffix", "replace",
    "rfind",        "rindex",     "rjust",     "rpartition",  "rsplit",    "rstrip",       "split",        "splitlines",
    "startswith",   "strip",      "swapcase",  "title",       "translate", "upper",        "zfill"};

Value list_of(const std::vector<View>& parts, Meter& meter) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (View part : parts) items.push_back(make_text(std::string(part), meter));
  return make_list(std::move(items), meter);
}

// Searching from the right takes time by both sizes.
void charge_backward(View text, View part, Meter& meter) {
  meter.step(static_cast<int64_t>(text.size() / 4 + text.size() * (part.size() / 16)));
}

// str.split() without a separator: runs of blanks. limit < 0: all.
std::vector<View> split_blanks(View text, int64_t limit, bool from_right, Meter& meter) {
  std::vector<View> parts;
  const Ends before = from_right ? Ends::kRight : Ends::kLeft;
  meter.step(static_cast<int64_t>(text.size() / 2));
  View rest = strip(text, before);
  while (!rest.empty()) {
    if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
      parts.push_back(rest);
      break;
    }
    size_t cut = from_right ? rest.size() : 0;
    while (from_right ? cut > 0 : cut < rest.size()) {
      size_t start = from_right ? cut - 1 : cut;
      while (from_right && start > 0 && (static_cast<unsigned char>(rest[start]) & 0xC0) == 0x80) --start;
      const size_t size = character_size(rest, start);
      if (strip(rest.substr(start, size), Ends::kLeft).empty()) break;
      cut = from_right ? start : start + size;
    }
    meter.make(sizeof(View));
    parts.push_back(from_right ? rest.substr(cut) : rest.substr(0, cut));
    rest = strip(from_right ? rest.substr(0, cut) : rest.substr(cut), before);
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<View> split_at(View text, View separator, int64_t limit, Meter& meter) {
  std::vector<View> parts;
  size_t begin = 0;
  for (size_t at = 0; limit < 0 || static_cast<int64_t>(parts.size()) < limit; begin = at + separator.size()) {
    at = find_text(text, separator, begin);
    if (at == kNone) break;
    meter.make(sizeof(View));
    parts.push_back(text.substr(begin, at - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// The last `limit` separators of all, found from the right as Python finds them.
std::vector<View> split_at_right(View text, View separator, int64_t limit, Meter& meter) {
  std::vector<View> parts;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    const size_t at = text.rfind(separator);
    if (at == kNone) break;
    meter.make(sizeof(View));
    parts.push_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  parts.push_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Value split(View text, const std::string& name, CallArguments arguments, Meter& meter) {
  const Signature signature(name, std::move(arguments), {"sep", "maxsplit"}, meter);
  const int64_t limit = signature.integer(1, -1);
  meter.make(text.size());
  const bool from_right = name == "rsplit";
  if (!signature.has(0) || signature.value(0).is<None>())
    return list_of(split_blanks(text, limit, from_right, meter), meter);
  const std::string separator = signature.text(0);
  if (separator.empty()) meter.fail(name + ": empty separator");
  if (from_right) charge_backward(text, separator, meter);
  return list_of(from_right ? split_at_right(text, separator, limit, meter) : split_at(text, separator, limit, meter),
                 meter);
}

Value strip_method(View text, const std::string& name, CallArguments arguments, Meter& meter) {
  const Signature signature(name, std::move(arguments), {"chars"}, meter);
  const Ends ends = name == "strip" ? Ends::kBoth : name == "lstrip" ? Ends::kLeft : Ends::kRight;
  meter.make(text.size());
  meter.step(static_cast<int64_t>(text.size() / 4));
  if (!signature.has(0) || signature.value(0).is<None>()) return make_text(std::string(strip(text, ends)), meter);
  const std::string characters = signature.text(0);
  meter.make(4 * characters.size());
  return make_text(std::string(strip(text, ends, characters)), meter);
}

// The part of the text between two positions of characters, as start and end arguments give it; nullopt where start
// lies behind the end.
struct Part {
  View text;
  int64_t start = 0;  // in characters
};
std::optional<Part> part_of(View text, const Signature& signature, Meter& meter) {
  meter.read(text.size());
  const int64_t size = count_characters(text);
  const auto position = [&](size_t place, int64_t fallback) {
    if (!signature.has(place) || signature.value(place).is<None>()) return fallback;
    const int64_t at = signature.integer(place, 0);
    return at < 0 ? std::max<int64_t>(at + size, 0) : at;
  };
  const int64_t start = position(1, 0), end = std::min(position(2, size), size);
  if (start > end) return std::nullopt;
  const size_t from = byte_of_character(text, start);
  return Part{text.substr(from, byte_of_character(text, end) - from), start};
}

Value begins_or_ends(View text, const std::string& name, CallArguments arguments, Meter& meter) {
  const Signature signature(name, std::move(arguments), {"prefix", "start", "end"}, meter);
  const Value wanted = signature.value(0);
  const auto part = part_of(text, signature, meter);
  const auto matches = [&](const Value& candidate) {
    if (candidate.text() == nullptr) refuse(candidate, name + ": expected a string or a tuple of strings", meter);
    if (!part) return false;
    meter.read(candidate.text()->size());
    return name == "startswith" ? part->text.starts_with(*candidate.text()) : part->text.ends_with(*candidate.text());
  };
  if (!wanted.is_sequence(Sequence::Flavor::kTuple)) return Value(Value::Data(matches(wanted)));
  const auto& all = wanted.sequence()->items;
  return Value(Value::Data(std::any_of(all.begin(), all.end(), matches)));
}

Value find(View text, const std::string& name, CallArguments arguments, Meter& meter) {
  const Signature signature(name, std::move(arguments), {"sub", "start", "end"}, meter);
  const std::string wanted = signature.text(0);
  const auto part = part_of(text, signature, meter);
  const bool from_right = name[0] == 'r';
  if (from_right) charge_backward(text, wanted, meter);
  const size_t at = !part ? kNone : from_right ? part->text.rfind(wanted) : find_text(part->text, wanted);
  if (at == kNone && name.ends_with("index")) meter.fail(name + ": substring not found");
  return Value(Value::Data(at == kNone ? int64_t{-1} : part->start + count_characters(part->text.substr(0, at))));
}

Value count(View text, CallArguments arguments, Meter& meter) {
  const Signature signature("count", std::move(arguments), {"sub", "start", "end"}, meter);
  const std::string wanted = signature.text(0);
  const auto part = part_of(text, signature, meter);
  if (!part) return Value(Value::Data(int64_t{0}));
  if (wanted.empty()) return Value(Value::Data(count_characters(part->text) + 1));
  int64_t found = 0;
  for (size_t at = 0; (at = find_text(part->text, wanted, at)) != kNone; at += wanted.size()) {
    meter.step();
    ++found;
  }
  return Value(Value::Data(found));
}

Value join(const std::string& separator, CallArguments arguments, Meter& meter) {
  const Signature signature("join", std::move(arguments), {"iterable"}, meter);
  std::string text;
  bool first = true;
  Cursor cursor(signature.value(0), meter);
  while (const auto item = cursor.next()) {
    if (item->text() == nullptr) refuse(*item, "join: expected strings", meter);
    meter.make(item->text()->size() + separator.size());
    if (!first) text += separator;
    text += *item->text();
    first = false;
  }
  return make_text(std::move(text), meter);
}

Value justify(const std::string& text, const std::string& name, CallArguments arguments, Meter& meter) {
  const Signature signature(name, std::move(arguments), {"width", "fillchar"}, meter);
  signature.value(0);
  const std::string fill = signature.text(1, " ");
  if (count_characters(fill) != 1) meter.fail(name + ": the fill must be one character");
  const int64_t missing = std::max<int64_t>(signature.integer(0, 0) - count_characters(text), 0);
  const int64_t width = missing + count_characters(text);
  // str.center puts the odd blank on the left of odd widths.
  const int64_t left = name == "ljust" ? 0 : name == "rjust" ? missing : missing / 2 + (missing & width & 1);
  meter.make(static_cast<size_t>(std::min<int64_t>(missing, int64_t{1} << 40)) * fill.size());
  std::string result;
  for (int64_t i = 0; i < left; ++i) result += fill;
  result += text;
  for (int64_t i = left; i < missing; ++i) result += fill;
  return make_text(std::move(result), meter);
}

Value partition(const std::string& text, const std::string& name, CallArguments arguments, Meter& meter) {
  const Signature signature(name, std::move(arguments), {"sep"}, meter);
  const std::string separator = signature.text(0);
  if (separator.empty()) meter.fail(name + ": empty separator");
  const bool from_right = name == "rpartition";
  meter.read(text.size());
  if (from_right) charge_backward(text, separator, meter);
  const size_t at = from_right ? text.rfind(separator) : find_text(text, separator);
  const auto part = [&](std::string piece) { return make_text(std::move(piece), meter); };
  if (at == kNone && from_right) return make_tuple({part(""), part(""), part(text)}, meter);
  if (at == kNone) return make_tuple({part(text), part(""), part("")}, meter);
  return make_tuple({part(text.substr(0, at)), part(separator), part(text.substr(at + separator.size()))}, meter);
}

std::optional<Value> without_arguments(const std::string& text, const std::string& name, Meter& meter) {
  constexpr std::pair<View, std::string (*)(View)> kCases[] = {
      {"upper", upper}, {"lower", lower}, {"title", title}, {"capitalize", capitalize}};
  constexpr std::pair<View, Class> kClasses[] = {{"isalpha", Class::kAlpha},     {"isdigit", Class::kDigit},
                                                 {"isdecimal", Class::kDecimal}, {"isalnum", Class::kAlnum},
                                                 {"isspace", Class::kSpace},     {"isupper", Class::kUpper},
                                                 {"islower", Class::kLower}};
  meter.visit(text.size());
  for (const auto& [known, change] : kCases) {
    if (name == known) return make_text(change(text), meter);
  }
  for (const auto& [known, wanted] : kClasses) {
    if (name == known) return Value(Value::Data(is_class(text, wanted)));
  }
  if (name == "isascii") return Value(Value::Data(is_ascii(text)));
  return std::nullopt;
}

Value remove_end(const std::string& text, const std::string& name, CallArguments arguments, Meter& meter) {
  const std::string end = Signature(name, std::move(arguments), {"affix"}, meter).text(0);
  View rest = text;
  if (name == "removeprefix" && rest.starts_with(end)) rest.remove_prefix(end.size());
  if (name == "removesuffix" && rest.ends_with(end)) rest.remove_suffix(end.size());
  return make_text(std::string(rest), meter);
}

}  // namespace

bool is_text_method(const std::string& name) {
  return std::find(kMethods.begin(), kMethods.end(), name) != kMethods.end();
}

std::string replace_text(const std::string& text, const std::string& old, const std::string& by, int64_t count,
                         Meter& meter) {
  std::string result;
  meter.make(text.size());
  if (count < 0) count = std::numeric_limits<int64_t>::max();
  size_t begin = 0;
  while (count-- > 0) {
    // An empty text is found before every character and at the end.
    const size_t at = find_text(text, old, begin);
    if (at == kNone) break;
    meter.make(by.size());
    result.append(text, begin, at - begin).append(by);
    begin = at + old.size();
    if (!old.empty()) continue;
    if (begin >= text.size()) return result;
    const size_t size = character_size(text, begin);
    result.append(text, begin, size);
    begin += size;
  }
  return result.append(text, begin);
}

Value call_text_method(const Value& receiver, const std::string& name, CallArguments arguments, Meter& meter) {
  if (receiver.is<Markup>()) meter.fail("methods of what |safe and |escape return are not supported");
  const std::string& text = *receiver.text();
  if (name == "split" || name == "rsplit") return split(text, name, std::move(arguments), meter);
  if (name.ends_with("strip")) return strip_method(text, name, std::move(arguments), meter);
  if (name == "startswith" || name == "endswith") return begins_or_ends(text, name, std::move(arguments), meter);
  if (name.ends_with("find") || name.ends_with("index")) return find(text, name, std::move(arguments), meter);
  if (name == "count") return count(text, std::move(arguments), meter);
  if (name == "join") return join(text, std::move(arguments), meter);
  if (name == "center" || name.ends_with("just")) return justify(text, name, std::move(arguments), meter);
  if (name.ends_with("partition")) return partition(text, name, std::move(arguments), meter);
  if (name.starts_with("remove")) return remove_end(text, name, std::move(arguments), meter);
  if (name == "format") return make_text(format_braces(text, arguments, meter), meter);
  if (name == "splitlines") {
    const Signature signature(name, std::move(arguments), {"keepends"}, meter);
    return list_of(split_lines(text, meter, signature.flag(0, false)), meter);
  }
  if (name == "replace") {
    const Signature signature(name, std::move(arguments), {"old", "new", "count"}, meter);
    return make_text(replace_text(text, signature.text(0), signature.text(1), signature.integer(2, -1), meter), meter);
  }
  if (arguments.positional.empty() && arguments.named.empty()) {
    if (auto value = without_arguments(text, name, meter)) return *value;
  }
  meter.fail("the method '" + name + "' of strings is not supported, or not with these arguments");
}

}  // namespace fathom::jinja
