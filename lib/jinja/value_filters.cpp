// Filters of one value: those that make text, and length, int and default.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "jinja/filters.h"
#include "jinja/format.h"
#include "jinja/methods.h"
#include "jinja/show.h"
#include "jinja/text.h"

namespace fathom::jinja {
namespace {

constexpr int64_t kWidestMargin = 1000;

// A result that is safe to print where its source was.
Value like(const Value& source, std::string text, Meter& meter) {
  return source.is<Markup>() ? make_markup(std::move(text), meter) : make_text(std::move(text), meter);
}

template <std::string (*change)(std::string_view, Meter&)>
Value in_case(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature none("the filter", std::move(arguments), {}, meter);
  const std::string text = to_text(operand, meter);
  meter.visit(text.size());
  return like(operand, change(text, meter), meter);
}

// Upper case at the start and after blanks, hyphens and opening brackets; lower case elsewhere.
Value title_filter(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature none("title", std::move(arguments), {}, meter);
  const std::string text = to_text(operand, meter);
  meter.visit(4 * text.size());  // each letter on its own
  std::string result;
  bool starts = true;
  for (size_t at = 0; at < text.size();) {
    const std::string_view character = std::string_view(text).substr(at, character_size(text, at));
    result += starts ? upper(character, meter) : lower(character, meter);
    starts =
        std::string_view("-({[<").find(character) != std::string_view::npos || strip(character, Ends::kLeft).empty();
    at += character.size();
  }
  return make_text(std::move(result), meter);
}

Value trim(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("trim", std::move(arguments), {"chars"}, meter);
  const std::string text = to_text(operand, meter);
  meter.make(text.size());
  const auto rest = signature.has(0) ? strip(text, Ends::kBoth, signature.text(0)) : strip(text, Ends::kBoth);
  return like(operand, std::string(rest), meter);
}

Value replace(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("replace", std::move(arguments), {"old", "new", "count"}, meter);
  const std::string old = to_text(signature.value(0), meter), by = to_text(signature.value(1), meter);
  const int64_t most = signature.has(2) ? signature.integer(2, -1) : -1;
  return make_text(replace_text(to_text(operand, meter), old, by, most, meter), meter);
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

Value indent(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("indent", std::move(arguments), {"width", "first", "blank"}, meter);
  if (operand.text() == nullptr) refuse(operand, "indent: expected a string", meter);
  const std::string margin = margin_of(signature.value(0, Value(Value::Data(int64_t{4}))), meter);
  const std::string text = *operand.text() + "\n";  // so that a text without a line has one
  std::string result = signature.flag(1, false) ? margin : "";
  bool first = true;
  for (std::string_view line : split_lines(text, meter)) {
    meter.make(margin.size() + 1);
    if (!first) result += '\n';
    if (!first && (!line.empty() || signature.flag(2, false))) result += margin;
    result += line;
    first = false;
  }
  return like(operand, std::move(result), meter);
}

Value string(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature none("string", std::move(arguments), {}, meter);
  return operand.text() != nullptr ? operand : make_text(to_text(operand, meter), meter);
}

Value safe(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature none("safe", std::move(arguments), {}, meter);
  return make_markup(to_text(operand, meter), meter);
}

Value format(const Value& operand, CallArguments arguments, Meter& meter) {
  return make_text(format_percent(to_text(operand, meter), arguments, meter), meter);
}

Value tojson(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("tojson", std::move(arguments), {"ensure_ascii", "indent", "separators", "sort_keys"},
                            meter);
  if (signature.flag(3, false)) meter.fail("tojson: sort_keys=true is not supported");
  JsonStyle style;
  style.ensure_ascii = signature.flag(0, false);
  if (signature.has(1)) {
    style.indent = margin_of(signature.value(1), meter);
    style.item_separator = ",";
  }
  if (signature.has(2)) {
    const std::vector<Value> pair = to_vector(signature.value(2), meter);
    if (pair.size() != 2 || pair[0].text() == nullptr || pair[1].text() == nullptr) {
      meter.fail("tojson: separators: expected two strings");
    }
    style.item_separator = *pair[0].text();
    style.key_separator = *pair[1].text();
  }
  return make_text(to_json_text(operand, style, meter), meter);
}

// What float() makes of a text: digits with a sign, point and exponent; nullopt where it fails.
std::optional<double> parse_number(const std::string& text, Meter& meter) {
  if (text.empty() || text.find_first_not_of("0123456789+-.eE_") != std::string::npos) return std::nullopt;
  if (text.find('_') != std::string::npos) meter.fail("int: '" + text + "': digits with _ are not supported");
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() + text.size() && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

Value int_filter(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("int", std::move(arguments), {"default", "base"}, meter);
  if (signature.integer(1, 10) != 10) meter.fail("int: bases other than 10 are not supported");
  if (operand.is<Undefined>()) refuse(operand, "", meter);
  if (const auto value = operand.integer()) return Value(Value::Data(*value));
  std::optional<double> number = operand.number();
  if (const std::string* text = operand.text()) {
    meter.visit(text->size());
    const std::string digits(strip(*text, Ends::kBoth));
    int64_t value = 0;
    const char* begin = digits.data() + (digits.starts_with("+") && !digits.starts_with("+-") ? 1 : 0);
    const auto [end, error] = std::from_chars(begin, digits.data() + digits.size(), value);
    if (error == std::errc() && end == digits.data() + digits.size()) return Value(Value::Data(value));
    number = parse_number(digits, meter);
  }
  if (!number || std::isnan(*number)) return signature.value(0, Value(Value::Data(int64_t{0})));
  if (!(std::fabs(*number) < 0x1p63)) meter.fail("integers beyond 64 bits are not supported");
  return Value(Value::Data(static_cast<int64_t>(*number)));
}

Value length(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature none("length", std::move(arguments), {}, meter);
  const auto size = length_of(operand, meter);
  if (!size) refuse(operand, "length: expected something with a length", meter);
  return Value(Value::Data(*size));
}

Value default_filter(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("default", std::move(arguments), {"default_value", "boolean"}, meter);
  const bool replaces = operand.is<Undefined>() || (signature.flag(1, false) && !truth(operand));
  return replaces ? signature.value(0, make_text("", meter)) : operand;
}

constexpr FilterEntry kFilters[] = {{"upper", in_case<upper>},
                                    {"lower", in_case<lower>},
                                    {"capitalize", in_case<capitalize>},
                                    {"title", title_filter},
                                    {"trim", trim},
                                    {"replace", replace},
                                    {"indent", indent},
                                    {"string", string},
                                    {"safe", safe},
                                    {"format", format},
                                    {"tojson", tojson},
                                    {"int", int_filter},
                                    {"length", length},
                                    {"count", length},
                                    {"default", default_filter},
                                    {"d", default_filter}};

}  // namespace

std::span<const FilterEntry> value_filters() { return kFilters; }

}  // namespace fathom::jinja
