// Fields of texts; what else Python's format languages have, no chat template is known to use, and is refused.
#include "jinja/format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "jinja/show.h"

namespace fathom::jinja {
namespace {

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

// digits: what stands between the % and the type.
std::string percent_field(std::string_view digits, char type, const Value& value, Meter& meter) {
  const auto has_one_digit_after = [&](char mark) {
    return digits.size() == 2 && digits[0] == mark && digits[1] != '.';
  };
  const size_t digit = digits.empty() ? 0 : static_cast<size_t>(digits.back() - '0');
  if (type == 's' && digits.empty()) return to_text(value, meter);
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

}  // namespace

std::string format_percent(const std::string& format, const CallArguments& arguments, Meter& meter) {
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
    const std::string piece = is_percent ? "%" : percent_field(digits, format[type], values.next(), meter);
    meter.make(piece.size());
    result += piece;
    at = type + 1;
  }
  if (!values.are_all_used()) meter.fail("format: not all arguments have a field in the text");
  return result;
}

std::string format_braces(const std::string& format, const CallArguments& arguments, Meter& meter) {
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
    const std::string piece = pair == "{}" ? to_text(values.next(), meter) : std::string(1, format[at]);
    meter.make(piece.size());
    result += piece;
    at += 2;
  }
  return result;
}

}  // namespace fathom::jinja
