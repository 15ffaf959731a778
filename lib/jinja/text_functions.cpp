// Filters and methods of text, on UTF-8; positions count characters.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "jinja/built_ins.h"
#include "jinja/show.h"
#include "jinja/text.h"

namespace fathom::jinja {
namespace {

constexpr size_t kNone = std::string::npos;
constexpr int64_t kWidestMargin = 1000;
using View = std::string_view;

template <std::string (*change)(View, Meter&)>
Value in_case(const Value& operand, const Bound&, Meter& meter) {
  const std::string text = to_text(operand, meter);
  meter.visit(text.size());
  return make_text_like(operand, change(text, meter), meter);
}

// Upper case at the start and after blanks, hyphens and opening brackets; lower case elsewhere.
Value title_filter(const Value& operand, const Bound&, Meter& meter) {
  const std::string text = to_text(operand, meter);
  meter.visit(4 * text.size());  // each letter on its own
  std::string result;
  bool starts = true;
  for (size_t at = 0; at < text.size();) {
    const View character = View(text).substr(at, character_size(text, at));
    result += starts ? upper(character, meter) : lower(character, meter);
    starts = View("-({[<").find(character) != std::string_view::npos || strip(character, Ends::kLeft).empty();
    at += character.size();
  }
  return make_text(std::move(result), meter);
}

template <Ends ends>
Value strip_ends(const Value& operand, const Bound& arguments, Meter& meter) {
  const std::string text = to_text(operand, meter);
  meter.make(text.size());
  meter.step(static_cast<int64_t>(text.size() / 4));
  if (!arguments.has_more_than_none(0)) return make_text_like(operand, std::string(strip(text, ends)), meter);
  const std::string characters = arguments.text(0);
  meter.make(4 * characters.size());
  meter.step(static_cast<int64_t>(text.size() + characters.size()));  // which are sorted, and looked up for each
  return make_text_like(operand, std::string(strip(text, ends, characters)), meter);
}

// str.replace; count < 0: all.
std::string replaced(View text, View old, View by, int64_t count, Meter& meter) {
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

Value replace(const Value& operand, const Bound& arguments, Meter& meter) {
  const std::string text = to_text(operand, meter);
  return make_text(replaced(text, arguments.text(0), arguments.text(1), arguments.integer(2, -1), meter), meter);
}

// A number of blanks, or the text itself.
std::string margin_of(const Value& width, Meter& meter) {
  if (width.text() != nullptr) return *width.text();
  if (!width.integer()) refuse(width, "indent: expected an integer or a string", meter);
  if (*width.integer() > kWidestMargin) {
    meter.fail("indent: widths beyond " + std::to_string(kWidestMargin) + " are not supported");
  }
  return std::string(static_cast<size_t>(std::max<int64_t>(*width.integer(), 0)), ' ');
}

Value indent(const Value& operand, const Bound& arguments, Meter& meter) {
  if (arguments.flag(2)) meter.fail("indent: blank=true is not supported");
  if (operand.text() == nullptr) refuse(operand, "indent: expected a string", meter);
  const std::string margin = margin_of(arguments.value(0, Value(int64_t{4})), meter);
  const std::string text = *operand.text() + "\n";  // so that a text without a line has one
  std::string result = arguments.flag(1) ? margin : "";
  bool first = true;
  for (View line : split_lines(text, meter)) {
    meter.make(margin.size() + 1);
    if (!first) result += '\n';
    if (!first && !line.empty()) result += margin;
    result += line;
    first = false;
  }
  return make_text_like(operand, std::move(result), meter);
}

Value string(const Value& operand, const Bound&, Meter& meter) {
  return operand.text() != nullptr ? operand : make_text(to_text(operand, meter), meter);
}

// The method, which keeps what |safe returned; the filter does not.
Value replace_method(const Value& receiver, const Bound& arguments, Meter& meter) {
  const bool is_markup = receiver.is<Markup>();
  const std::string by = is_markup ? to_escaped_text(arguments.value(1), meter) : arguments.text(1);
  return make_text_like(receiver, replaced(*receiver.text(), arguments.text(0), by, arguments.integer(2, -1), meter),
                        meter);
}

Value escape(const Value& operand, const Bound&, Meter& meter) {
  return operand.is<Markup>() ? operand : make_markup(to_escaped_text(operand, meter), meter);
}
Value force_escape(const Value& operand, const Bound&, Meter& meter) {
  return make_markup(to_escaped_text(make_text(to_text(operand, meter), meter), meter), meter);
}

Value safe(const Value& operand, const Bound&, Meter& meter) { return make_markup(to_text(operand, meter), meter); }

Value tojson(const Value& operand, const Bound& arguments, Meter& meter) {
  JsonStyle style;
  style.ensure_ascii = arguments.flag(0);
  style.sort_keys = arguments.flag(3);
  if (arguments.has_more_than_none(1)) {
    style.indent = margin_of(arguments.value(1), meter);
    style.item_separator = ",";
  }
  if (arguments.has_more_than_none(2)) {
    const std::vector<Value> pair = to_vector(arguments.value(2), meter);
    if (pair.size() != 2 || pair[0].text() == nullptr || pair[1].text() == nullptr) {
      meter.fail("tojson: separators: expected two strings");
    }
    style.item_separator = *pair[0].text();
    style.key_separator = *pair[1].text();
  }
  return make_text(to_json_text(operand, style, meter), meter);
}

// The arguments, one for each field.
class Values {
 public:
  Values(const CallArguments& arguments, Meter& meter) : values_(arguments.positional), meter_(meter) {
    if (!arguments.named.empty()) meter.fail("format: arguments with names are not supported");
  }
  const Value& next() {
    if (at_ == values_.size()) meter_.fail("format: not enough arguments for the fields of the text");
    return values_[at_++];
  }
  bool are_all_used() const { return at_ == values_.size(); }

 private:
  const std::vector<Value>& values_;
  Meter& meter_;
  size_t at_ = 0;
};

// digits: what stands between the % and the type. format: what the field is in.
std::string percent_field(const Value& format, std::string_view digits, char type, const Value& value, Meter& meter) {
  const auto has_one_digit_after = [&](char mark) {
    return digits.size() == 2 && digits[0] == mark && digits[1] != '.';
  };
  const size_t digit = digits.empty() ? 0 : static_cast<size_t>(digits.back() - '0');
  if (type == 's' && digits.empty()) return to_part_of(format, value, meter);
  if (type == 'd' && (digits.empty() || has_one_digit_after('0'))) {
    if (!value.integer()) refuse(value, "format: %d: expected an integer", meter);
    std::string text = std::to_string(*value.integer());
    if (text.size() < digit) text.insert(text[0] == '-' ? 1 : 0, digit - text.size(), '0');
    return text;
  }
  if (type == 'f' && (digits.empty() || has_one_digit_after('.'))) {
    if (!value.number() || !std::isfinite(*value.number())) refuse(value, "format: %f: expected a number", meter);
    std::array<char, 512> text{};
    std::snprintf(text.data(), text.size(), "%.*f", digits.empty() ? 6 : static_cast<int>(digit), *value.number());
    return text.data();
  }
  meter.fail("format: the field '%" + std::string(digits) + type + "' is not supported, but %s, %d, %02d and %.2f are");
}

// "%s of %d" | format(…), in the little that templates use. operand: the format, a text.
Value format_percent(const Value& operand, const CallArguments& arguments, Meter& meter) {
  const std::string& format = *operand.text();
  std::string result;
  Values values(arguments, meter);
  meter.make(format.size());
  for (size_t at = 0; at < format.size();) {
    const size_t mark = std::min(format.find('%', at), format.size());
    const size_t type = format.find_first_not_of("0123456789.", mark + 1);
    result.append(format, at, mark - at);
    if (mark == format.size()) break;
    if (type == std::string::npos) meter.fail("format: the text ends inside a field");
    const std::string_view digits = std::string_view(format).substr(mark + 1, type - mark - 1);
    const bool is_percent = digits.empty() && format[type] == '%';
    const std::string piece = is_percent ? "%" : percent_field(operand, digits, format[type], values.next(), meter);
    meter.make(piece.size());
    result += piece;
    at = type + 1;
  }
  if (!values.are_all_used()) meter.fail("format: not all arguments have a field in the text");
  return make_text_like(operand, std::move(result), meter);
}

// "{} of {}".format(…), with {{ and }} for braces.
Value format_braces(const Value& operand, const CallArguments& arguments, Meter& meter) {
  const std::string& format = *operand.text();
  std::string result;
  Values values(arguments, meter);
  meter.make(format.size());
  for (size_t at = 0; at < format.size();) {
    const std::string_view pair = std::string_view(format).substr(at, 2);
    if (format[at] != '{' && format[at] != '}') {
      result += format[at++];
      continue;
    }
    if (pair != "{}" && pair != "{{" && pair != "}}") {
      meter.fail("format: a field other than {}, such as {0}, {name} or {:>5}, is not supported");
    }
    const std::string piece = pair == "{}" ? to_part_of(operand, values.next(), meter) : std::string(1, format[at]);
    meter.make(piece.size());
    result += piece;
    at += 2;
  }
  return make_text_like(operand, std::move(result), meter);
}

Value format_filter(const Value& operand, const Bound& arguments, Meter& meter) {
  return format_percent(string(operand, arguments, meter), arguments.all(), meter);
}

Value format_method(const Value& operand, const Bound& arguments, Meter& meter) {
  return format_braces(operand, arguments.all(), meter);
}

Value list_of(const Value& source, const std::vector<View>& parts, Meter& meter) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (View part : parts) items.push_back(make_text_like(source, std::string(part), meter));
  return make_list(std::move(items), meter);
}

// str.split() without a separator: at runs of blanks. limit < 0: all.
std::vector<View> split_blanks(View text, int64_t limit, Meter& meter) {
  std::vector<View> parts;
  meter.step(static_cast<int64_t>(text.size() / 2));
  for (View rest = strip(text, Ends::kLeft); !rest.empty();) {
    const bool is_last = static_cast<int64_t>(parts.size()) == limit;
    size_t end = is_last ? rest.size() : 0;
    const auto is_blank = [&](size_t at) {
      return strip(rest.substr(at, character_size(rest, at)), Ends::kLeft).empty();
    };
    while (end < rest.size() && !is_blank(end)) end += character_size(rest, end);
    meter.make(sizeof(View));
    parts.push_back(rest.substr(0, end));
    rest = strip(rest.substr(end), Ends::kLeft);
  }
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

Value split(const Value& receiver, const Bound& arguments, Meter& meter) {
  const std::string& text = *receiver.text();
  const int64_t limit = arguments.integer(1, -1);
  meter.make(text.size());
  if (!arguments.has_more_than_none(0)) return list_of(receiver, split_blanks(text, limit, meter), meter);
  const std::string separator = arguments.text(0);
  if (separator.empty()) meter.fail("split: empty separator");
  return list_of(receiver, split_at(text, separator, limit, meter), meter);
}

template <bool at_start>
Value begins_or_ends(const Value& receiver, const Bound& arguments, Meter& meter) {
  const Value wanted = arguments.value(0);
  const auto matches = [&](const Value& end) {
    if (end.text() == nullptr) refuse(end, "startswith, endswith: expected a string or a tuple of strings", meter);
    meter.read(end.text()->size());
    return at_start ? receiver.text()->starts_with(*end.text()) : receiver.text()->ends_with(*end.text());
  };
  if (!wanted.is_sequence(Sequence::Flavor::kTuple)) return Value(matches(wanted));
  const auto& all = wanted.sequence()->items;
  return Value(std::any_of(all.begin(), all.end(), matches));
}

constexpr BuiltIn kTextFilters[] = {{"upper", {}, in_case<upper>},
                                    {"lower", {}, in_case<lower>},
                                    {"capitalize", {}, in_case<capitalize>},
                                    {"title", {}, title_filter},
                                    {"trim", {"chars"}, strip_ends<Ends::kBoth>},
                                    {"replace", {"old", "new", "count"}, replace},
                                    {"indent", {"width", "first", "blank"}, indent},
                                    {"string", {}, string},
                                    {"safe", {}, safe},
                                    {"escape", {}, escape},
                                    {"e", {}, escape},
                                    {"forceescape", {}, force_escape},
                                    {"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, tojson},
                                    {"format", {kAll}, format_filter}};

constexpr BuiltIn kMethods[] = {{"split", {"sep", "maxsplit"}, split},
                                {"strip", {"chars"}, strip_ends<Ends::kBoth>},
                                {"lstrip", {"chars"}, strip_ends<Ends::kLeft>},
                                {"rstrip", {"chars"}, strip_ends<Ends::kRight>},
                                {"startswith", {"prefix"}, begins_or_ends<true>},
                                {"endswith", {"suffix"}, begins_or_ends<false>},
                                {"replace", {"old", "new", "count"}, replace_method},
                                {"upper", {}, in_case<upper>},
                                {"lower", {}, in_case<lower>},
                                {"title", {}, in_case<title>},
                                {"capitalize", {}, in_case<capitalize>},
                                {"format", {kAll}, format_method}};

}  // namespace

Value formatted(const Value& format, const Value& values, Meter& meter) {
  CallArguments arguments;
  if (values.is_sequence(Sequence::Flavor::kTuple)) {
    arguments.positional = to_vector(values, meter);
  } else {
    arguments.positional.push_back(values);
  }
  return format_percent(format, arguments, meter);
}

std::span<const BuiltIn> text_filters() { return kTextFilters; }
std::span<const BuiltIn> text_methods() { return kMethods; }

}  // namespace fathom::jinja
