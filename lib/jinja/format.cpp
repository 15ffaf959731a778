// "%5.2f" % x and "{:>5.2f}".format(x): one description of a field, two ways to write it.
#include "jinja/format.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "jinja/operators.h"
#include "jinja/show.h"
#include "jinja/text.h"

namespace fathom::jinja {
namespace {

constexpr int64_t kWidest = 10'000;
constexpr int64_t kMostDigits = 100;

struct Field {
  std::string fill = " ";
  char align = 0;  // < > ^ =; 0: as the type has it
  char sign = '-';
  bool alternate = false;  // 0x before hexadecimal digits
  char group = 0;          // , or _ between thousands
  int64_t width = 0;
  std::optional<int64_t> precision;
  char type = 0;
};

std::string padded(const std::string& sign, const std::string& body, const Field& field, char usual, Meter& meter) {
  const int64_t missing = field.width - count_characters(sign) - count_characters(body);
  if (missing <= 0) return sign + body;
  meter.make(static_cast<size_t>(missing) * field.fill.size());
  const auto fill = [&](int64_t count) {
    std::string text;
    for (int64_t i = 0; i < count; ++i) text += field.fill;
    return text;
  };
  switch (field.align != 0 ? field.align : usual) {
    case '<':
      return sign + body + fill(missing);
    case '^':
      return fill(missing / 2) + sign + body + fill(missing - missing / 2);
    case '=':
      return sign + fill(missing) + body;
    default:
      return fill(missing) + sign + body;
  }
}

std::string sign_of(bool negative, const Field& field) {
  if (negative) return "-";
  return field.sign == '-' ? "" : std::string(1, field.sign);
}

std::string grouped(std::string digits, char group) {
  if (group == 0) return digits;
  const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (size_t at = whole; at > 3;) {
    at -= 3;
    digits.insert(at, 1, group);
  }
  return digits;
}

std::string format_integer(int64_t value, const Field& field, Meter& meter) {
  const bool hexadecimal = field.type == 'x' || field.type == 'X';
  const int base = hexadecimal ? 16 : field.type == 'o' ? 8 : field.type == 'b' ? 2 : 10;
  std::array<char, 72> buffer{};
  const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  std::string digits(buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude, base).ptr);
  std::string sign = sign_of(value < 0, field);
  if (field.alternate && base != 10) sign += std::string("0") + (base == 16 ? "x" : base == 8 ? "o" : "b");
  if (field.type == 'X') {
    digits = upper(digits);
    sign = upper(sign);
  }
  return padded(sign, grouped(std::move(digits), field.group), field, '>', meter);
}

std::string format_float(double value, const Field& field, Meter& meter) {
  const bool percent = field.type == '%';
  const double magnitude = std::fabs(percent ? value * 100 : value);
  std::string body;
  if (field.type == 0) {
    body = float_repr(magnitude);
  } else if (!std::isfinite(magnitude)) {
    body = float_repr(magnitude);
    if (field.type == 'F' || field.type == 'E' || field.type == 'G') body = upper(body);
  } else {
    const std::string style = std::string("%") + (field.alternate ? "#" : "") + ".*" + (percent ? 'f' : field.type);
    std::array<char, 512> buffer{};
    const int size = std::snprintf(buffer.data(), buffer.size(), style.c_str(),
                                   static_cast<int>(field.precision.value_or(6)), magnitude);
    body.assign(buffer.data(), static_cast<size_t>(size));
  }
  if (percent) body += '%';
  return padded(sign_of(std::signbit(value) && !std::isnan(value), field), grouped(std::move(body), field.group), field,
                '>', meter);
}

std::string format_text(const std::string& text, const Field& field, Meter& meter) {
  meter.make(text.size());
  const std::string cut = field.precision ? text.substr(0, byte_of_character(text, *field.precision)) : text;
  return padded("", cut, field, '<', meter);
}

bool is_float_type(char type) { return std::string_view("fFeEgG%").find(type) != std::string_view::npos && type != 0; }

std::string format_value(const Value& value, const Field& field, Meter& meter) {
  const bool is_number = value.is<int64_t>() || value.is<double>() || (value.is<bool>() && field.type != 0);
  if (is_number && (is_float_type(field.type) || value.is<double>())) {
    if (field.type == 0 && field.precision) meter.fail("format: a precision needs a type, as in '.2f'");
    if (field.type != 0 && !is_float_type(field.type))
      meter.fail("format: a float does not have the type " + std::string(1, field.type));
    return format_float(*value.number(), field, meter);
  }
  if (is_number && std::string_view("dxXob").find(field.type) != std::string_view::npos) {
    if (field.precision) meter.fail("format: a precision is not allowed for an integer");
    return format_integer(*value.integer(), field, meter);
  }
  if (value.is<int64_t>() && field.type == 0) return format_integer(*value.integer(), field, meter);
  const bool plain = field.width == 0 && !field.precision && field.type == 0;
  if (value.text() == nullptr && !plain) refuse(value, "format: the field does not fit the value", meter);
  if (field.type != 0 && field.type != 's')
    meter.fail("format: a string does not have the type " + std::string(1, field.type));
  if (field.align == '=') meter.fail("format: '=' is for numbers");
  return format_text(to_text(value, meter), field, meter);
}

int64_t read_number(std::string_view text, size_t& at, int64_t largest, Meter& meter) {
  int64_t number = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    number = number * 10 + (text[at] - '0');
    if (number > largest) meter.fail("format: widths beyond " + std::to_string(largest) + " are not supported");
  }
  return number;
}

// [[fill]align][sign][#][0][width][,][.precision][type]
Field read_spec(std::string_view spec, Meter& meter) {
  constexpr std::string_view kAligns = "<>^=";
  Field field;
  size_t at = 0;
  const auto is = [&](size_t place, std::string_view set) {
    return place < spec.size() && set.find(spec[place]) != std::string_view::npos;
  };
  const size_t first = spec.empty() ? 0 : character_size(spec, 0);
  if (first > 0 && is(first, kAligns)) {
    field.fill = spec.substr(0, first);
    field.align = spec[first];
    at = first + 1;
  } else if (is(0, kAligns)) {
    field.align = spec[at++];
  }
  if (is(at, "+- ")) field.sign = spec[at++];
  if (is(at, "#")) field.alternate = ++at > 0;
  if (is(at, "0")) {
    ++at;
    if (field.align == 0) {
      field.fill = "0";
      field.align = '=';
    }
  }
  field.width = read_number(spec, at, kWidest, meter);
  if (is(at, ",_")) field.group = spec[at++];
  if (is(at, ".")) {
    ++at;
    field.precision = read_number(spec, at, kMostDigits, meter);
  }
  if (is(at, "sdxXobfFeEgG%")) field.type = spec[at++];
  if (at != spec.size()) meter.fail("format: the field '" + std::string(spec) + "' is not supported");
  if (field.group != 0 && field.fill == "0") meter.fail("format: zeros between groups are not supported");
  return field;
}

// What % takes its values from.
class PercentValues {
 public:
  PercentValues(const Value& values, Meter& meter) : values_(values), meter_(meter) {}

  Value next() {
    if (values_.is_sequence(Sequence::Flavor::kTuple)) {
      const auto& items = values_.sequence()->items;
      if (at_ >= items.size()) meter_.fail("not enough arguments for the % in a string");
      return items[at_++];
    }
    if (at_++ > 0) meter_.fail("not enough arguments for the % in a string");
    return values_;
  }
  Value named(const std::string& name) {
    is_named_ = true;
    if (values_.dict() == nullptr) meter_.fail("% in a string: %(name) needs a mapping");
    const Value* found = values_.dict()->find(make_text(name, meter_), meter_);
    if (found == nullptr) meter_.fail("% in a string: the mapping has no '" + name + "'");
    return *found;
  }
  void finish() const {
    const bool is_tuple = values_.is_sequence(Sequence::Flavor::kTuple);
    // Of what has items by a key or place, Python does not ask that they are used.
    const bool is_mapping = values_.dict() != nullptr || values_.is_sequence(Sequence::Flavor::kList) ||
                            values_.is<Undefined>() || values_.is<std::shared_ptr<const Range>>();
    const bool all = is_tuple ? at_ == values_.sequence()->items.size() : at_ == 1 || is_mapping;
    if (!all && !is_named_) meter_.fail("not all arguments converted by the % in a string");
  }

 private:
  const Value& values_;
  Meter& meter_;
  size_t at_ = 0;
  bool is_named_ = false;
};

std::string convert(const Value& value, Field field, Meter& meter) {
  if (field.align == 0) field.align = '>';
  switch (field.type) {
    case 's':
    case 'r':
      if (field.align == '=') {
        field.align = '>';
        field.fill = " ";
      }
      return format_text(field.type == 's' ? to_text(value, meter) : to_repr(value, meter), field, meter);
    case 'd':
    case 'i':
    case 'u': {
      if (!value.number()) refuse(value, "% in a string: expected a number", meter);
      const auto* real = value.get_if<double>();
      if (real != nullptr && !(std::fabs(*real) < 0x1p63)) meter.fail("integers beyond 64 bits are not supported");
      if (field.precision) meter.fail("% in a string: a precision of integers is not supported");
      field.type = 'd';
      return format_integer(real != nullptr ? static_cast<int64_t>(*real) : *value.integer(), field, meter);
    }
    case 'x':
    case 'X':
    case 'o':
      if (!value.integer()) refuse(value, "% in a string: expected an integer", meter);
      return format_integer(*value.integer(), field, meter);
    default:
      if (!is_float_type(field.type))
        meter.fail("% in a string: unsupported format character '" + std::string(1, field.type) + "'");
      if (!value.number()) refuse(value, "% in a string: expected a number", meter);
      return format_float(*value.number(), field, meter);
  }
}

}  // namespace

std::string format_field(const Value& value, std::string_view spec, Meter& meter) {
  return format_value(value, read_spec(spec, meter), meter);
}

std::string format_percent(const std::string& format, const Value& values, Meter& meter) {
  std::string result;
  PercentValues source(values, meter);
  meter.make(format.size());
  for (size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      result += format[at++];
      continue;
    }
    ++at;
    const auto here = [&] { return at < format.size() ? format[at] : '\0'; };
    std::optional<std::string> name;
    if (here() == '(') {
      const size_t end = format.find(')', at);
      if (end == std::string::npos) meter.fail("% in a string: incomplete format key");
      name = format.substr(at + 1, end - at - 1);
      at = end + 1;
    }
    Field field;
    bool zeros = false;
    for (; here() != 0 && std::string_view("-+ #0").find(here()) != std::string_view::npos; ++at) {
      if (here() == '-') field.align = '<';
      if (here() == '+' || (here() == ' ' && field.sign != '+')) field.sign = here();
      if (here() == '#') field.alternate = true;
      if (here() == '0') zeros = true;
    }
    if (zeros && field.align == 0) {
      field.align = '=';
      field.fill = "0";
    }
    field.width = read_number(format, at, kWidest, meter);
    if (here() == '.') {
      ++at;
      field.precision = read_number(format, at, kMostDigits, meter);
    }
    if (at >= format.size()) meter.fail("% in a string: incomplete format");
    field.type = format[at++];
    const std::string piece =
        field.type == '%' ? "%" : convert(name ? source.named(*name) : source.next(), field, meter);
    meter.make(piece.size());
    result += piece;
  }
  source.finish();
  return result;
}

}  // namespace fathom::jinja
