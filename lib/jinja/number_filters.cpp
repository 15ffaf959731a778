// Filters that make numbers, and default.
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "jinja/arguments.h"
#include "jinja/filter_table.h"
#include "jinja/text.h"

namespace fathom::jinja {
namespace {

constexpr int64_t kMostDigits = 300;

// Digits with single underscores between them, those taken out; empty if the text is none.
std::string without_underscores(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto is_digit = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
    if (text[i] != '_') {
      result += text[i];
    } else if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) {
      return "";
    }
  }
  return result;
}

std::optional<int64_t> parse_integer(std::string_view text, Meter& meter) {
  const std::string digits = without_underscores(strip(text, Ends::kBoth));
  const size_t start = !digits.empty() && (digits[0] == '-' || digits[0] == '+') ? 1 : 0;
  if (digits.size() == start || digits.find_first_not_of("0123456789", start) != std::string::npos) return std::nullopt;
  int64_t value = 0;
  const char* begin = digits.data() + (digits[0] == '+' ? 1 : 0);
  if (std::from_chars(begin, digits.data() + digits.size(), value).ec != std::errc()) {
    meter.fail("integers beyond 64 bits are not supported");
  }
  return value;
}

std::optional<double> parse_float(std::string_view text) {
  const std::string number = without_underscores(strip(text, Ends::kBoth));
  const std::string word = lower(number);
  const std::string_view unsigned_word =
      std::string_view(word).substr(!word.empty() && (word[0] == '-' || word[0] == '+'));
  const bool is_word = unsigned_word == "inf" || unsigned_word == "infinity" || unsigned_word == "nan";
  if (number.empty() || (!is_word && number.find_first_not_of("0123456789+-.eE") != std::string::npos))
    return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  return end == number.c_str() + number.size() ? std::optional(value) : std::nullopt;
}

Value int_filter(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("int", std::move(arguments), {"default", "base"}, meter);
  if (signature.integer(1, 10) != 10) meter.fail("int: bases other than 10 are not supported");
  if (operand.is<Undefined>()) refuse(operand, "", meter);
  if (const auto value = operand.integer()) return Value(Value::Data(*value));
  std::optional<double> number = operand.number();
  if (const std::string* text = operand.text()) {
    meter.visit(text->size());  // blanks are stripped, underscores taken out
    if (const auto value = parse_integer(*text, meter)) return Value(Value::Data(*value));
    number = parse_float(*text);
    if (number && std::isinf(*number)) number.reset();
  }
  if (!number || std::isnan(*number)) return signature.value(0, Value(Value::Data(int64_t{0})));
  if (!(std::fabs(*number) < 0x1p63)) meter.fail("integers beyond 64 bits are not supported");
  return Value(Value::Data(static_cast<int64_t>(*number)));
}

Value float_filter(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("float", std::move(arguments), {"default"}, meter);
  if (operand.is<Undefined>()) refuse(operand, "", meter);
  std::optional<double> number = operand.number();
  if (const std::string* text = operand.text()) {
    meter.visit(text->size());
    number = parse_float(*text);
  }
  return number ? Value(Value::Data(*number)) : signature.value(0, Value(Value::Data(0.0)));
}

Value abs_filter(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature none("abs", std::move(arguments), {}, meter);
  if (const auto value = operand.integer()) {
    if (*value == INT64_MIN) meter.fail("integers beyond 64 bits are not supported");
    return Value(Value::Data(*value < 0 ? -*value : *value));
  }
  if (const auto value = operand.number()) return Value(Value::Data(std::fabs(*value)));
  refuse(operand, "abs: expected a number", meter);
}

// To the nearest decimal of the exact binary value, ties to even, as Python rounds.
double round_to(double value, int64_t precision) {
  std::array<char, 800> text{};
  std::snprintf(text.data(), text.size(), "%.*f", static_cast<int>(precision), value);
  return std::strtod(text.data(), nullptr);
}

Value round_filter(const Value& operand, CallArguments arguments, Meter& meter) {
  const Signature signature("round", std::move(arguments), {"precision", "method"}, meter);
  const int64_t precision = signature.integer(0, 0);
  const std::string method = signature.text(1, "common");
  if (method != "common" && method != "ceil" && method != "floor")
    meter.fail("round: method must be common, ceil or floor");
  if (!operand.number()) refuse(operand, "round: expected a number", meter);
  if (precision < 0 || precision > kMostDigits)
    meter.fail("round: expected a precision from 0 to " + std::to_string(kMostDigits));
  const double value = *operand.number();
  if (method == "common") {
    if (operand.integer()) return Value(Value::Data(*operand.integer()));
    return Value(Value::Data(std::isfinite(value) ? round_to(value, precision) : value));
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (!std::isfinite(value * scale)) meter.fail("round: the number is too large");
  return Value(Value::Data((method == "ceil" ? std::ceil(value * scale) : std::floor(value * scale)) / scale));
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

constexpr FilterEntry kFilters[] = {{"int", int_filter},         {"float", float_filter}, {"abs", abs_filter},
                                    {"round", round_filter},     {"length", length},      {"count", length},
                                    {"default", default_filter}, {"d", default_filter}};

}  // namespace

std::span<const FilterEntry> number_filters() { return kFilters; }

}  // namespace fathom::jinja
