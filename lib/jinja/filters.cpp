// All filters by their names, the names of those that are refused, and filters of any value.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include "jinja/built_ins.h"
#include "jinja/text.h"

namespace fathom::jinja {
namespace {

// What float() makes of a text: digits with a sign, point and exponent, infinite beyond its range; nullopt where it
// fails.
std::optional<double> parse_number(const std::string& text, Meter& meter) {
  if (text.empty() || text.find_first_not_of("0123456789+-.eE_") != std::string::npos) return std::nullopt;
  if (text.find('_') != std::string::npos) meter.fail("'" + text + "': digits with _ are not supported");
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() + text.size() ? std::optional(value) : std::nullopt;
}

Value int_filter(const Value& operand, const Bound& arguments, Meter& meter) {
  if (operand.is<Undefined>()) refuse(operand, "", meter);
  if (const auto value = operand.integer()) return Value(*value);
  std::optional<double> number = operand.number();
  if (const std::string* text = operand.text()) {
    meter.visit(text->size());
    const std::string digits(strip(*text, Ends::kBoth));
    int64_t value = 0;
    const char* begin = digits.data() + (digits.starts_with("+") && !digits.starts_with("+-") ? 1 : 0);
    const auto [end, error] = std::from_chars(begin, digits.data() + digits.size(), value);
    if (error == std::errc() && end == digits.data() + digits.size()) return Value(value);
    number = parse_number(digits, meter);
    if (!number || !std::isfinite(*number)) return arguments.value(0, Value(int64_t{0}));
  }
  if (!number || std::isnan(*number)) return arguments.value(0, Value(int64_t{0}));
  if (!(std::fabs(*number) < 0x1p63)) meter.fail("integers beyond 64 bits are not supported");
  return Value(static_cast<int64_t>(*number));
}

Value float_filter(const Value& operand, const Bound& arguments, Meter& meter) {
  if (operand.is<Undefined>()) refuse(operand, "", meter);
  std::optional<double> number = operand.number();
  if (const std::string* text = operand.text()) {
    meter.visit(text->size());
    const std::string digits(strip(*text, Ends::kBoth));
    number = parse_number(digits, meter);
    const std::string word = lower(digits.substr(digits.find_first_not_of("+-") == 1 ? 1 : 0), meter);
    if (word == "inf" || word == "infinity" || word == "nan") {
      meter.fail("float: '" + digits + "' is not supported");
    }
  }
  return number ? Value(*number) : arguments.value(0, Value(0.0));
}

Value length(const Value& operand, const Bound&, Meter& meter) {
  const auto size = length_of(operand, meter);
  if (!size) refuse(operand, "length: expected something with a length", meter);
  return Value(*size);
}

Value default_filter(const Value& operand, const Bound& arguments, Meter& meter) {
  const bool replaces = operand.is<Undefined>() || (arguments.flag(1) && !truth(operand));
  return replaces ? arguments.value(0, make_text("", meter)) : operand;
}

constexpr BuiltIn kFilters[] = {{"int", {"default"}, int_filter},
                                {"float", {"default"}, float_filter},
                                {"length", {}, length},
                                {"count", {}, length},
                                {"default", {"default_value", "boolean"}, default_filter},
                                {"d", {"default_value", "boolean"}, default_filter}};

constexpr std::string_view kRefusedFilters[] = {
    "abs",   "attr",      "batch", "center",   "filesizeformat", "groupby", "pprint",    "random",   "round",
    "slice", "striptags", "sum",   "truncate", "urlencode",      "urlize",  "wordcount", "wordwrap", "xmlattr"};

const BuiltIn* find_filter(std::string_view name) {
  const BuiltIn* found = nullptr;
  for (const std::span<const BuiltIn> table :
       {std::span<const BuiltIn>(kFilters), text_filters(), sequence_filters()}) {
    if (found == nullptr) found = find_built_in(table, name);
  }
  return found;
}

}  // namespace

bool has_filter(const std::string& name) { return find_filter(name) != nullptr; }

std::string missing_filter(const std::string& name) {
  const bool known =
      std::find(std::begin(kRefusedFilters), std::end(kRefusedFilters), name) != std::end(kRefusedFilters);
  return known ? "the filter '" + name + "' is not supported in chat templates" : "No filter named '" + name + "'.";
}

Value apply_filter(const std::string& name, const Value& operand, CallArguments arguments, Meter& meter) {
  const BuiltIn* filter = find_filter(name);
  if (filter == nullptr) meter.fail(missing_filter(name));
  const Meter::Level level(meter);  // map('map', …) applies filters within filters
  return filter->call(operand, std::move(arguments), meter);
}

}  // namespace fathom::jinja
