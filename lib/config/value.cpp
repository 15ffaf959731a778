// Numbers by std::from_chars: no locale, no octal, no hexadecimal, no infinities.
#include "config/value.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "config/target_pattern.h"
#include "config/text.h"

namespace fathom::config {
namespace {

constexpr double kLargestNumber = std::numeric_limits<float>::max();
constexpr double kSmallestNumber = std::numeric_limits<float>::min();

bool is_plain_scalar(const Value& value) { return value.kind == Value::Kind::kScalar && !value.quoted; }

// Why a scalar that should be a number or a truth value is none, where quotes are the reason.
std::string remedy_for_quotes(const Value& value) {
  return value.kind == Value::Kind::kScalar && value.quoted ? "remove the quotes" : "";
}

bool inside(const Range& range, double number) {
  if (range.special && number == static_cast<double>(*range.special)) return true;
  if (range.open_low ? number <= range.low : number < range.low) return false;
  if (range.high == 0) return true;
  return range.open_high ? number < range.high : number <= range.high;
}

std::string short_number(double number) {
  return number == std::floor(number) && std::abs(number) < 1e9 ? std::to_string(static_cast<int64_t>(number))
                                                                : format_number(number);
}

std::optional<double> parse_number(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) return std::nullopt;
  return number;
}

bool looks_like_integer(std::string_view text) {
  if (!text.empty() && text[0] == '-') text.remove_prefix(1);
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string integer_remedy(const Value& value) {
  if (!is_plain_scalar(value)) return remedy_for_quotes(value);
  std::string digits = value.text;
  digits.erase(std::remove_if(digits.begin(), digits.end(), [](char c) { return c == '_' || c == ','; }), digits.end());
  const auto number = parse_number(digits);
  if (!number || *number != std::floor(*number) || std::abs(*number) > 1e15) return "";
  const std::string plain = std::to_string(static_cast<int64_t>(*number));
  return plain == value.text ? "" : "write " + plain;
}

// Names with blanks or commas between as a list, without blanks: a shell takes it for one word.
std::string as_list(std::string_view text) {
  constexpr std::string_view kBetween = " \t,";
  std::string list;
  for (size_t start = text.find_first_not_of(kBetween); start != std::string_view::npos;) {
    const size_t end = text.find_first_of(kBetween, start);
    list.append(list.empty() ? "" : ",").append(text.substr(start, end - start));
    start = text.find_first_not_of(kBetween, end);
  }
  return "[" + printable(list) + "]";
}

}  // namespace

std::string describe(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kNull:
      return "nothing";
    case Value::Kind::kScalar:
      return (value.quoted ? "the text '" : "'") + printable(value.text) + "'";
    case Value::Kind::kList:
      return "a list";
    case Value::Kind::kMap:
      return "a map";
  }
  return "";
}

std::string in_words(const Range& range) {
  std::string text = range.special ? std::to_string(*range.special) + " or " : "";
  text += (range.open_low ? "above " : "at least ") + short_number(range.low);
  if (range.high != 0) text += (range.open_high ? " and below " : " and at most ") + short_number(range.high);
  return text;
}

Read<bool> read_bool(const Value& value) {
  if (is_plain_scalar(value)) {
    if (value.text == "true") return true;
    if (value.text == "false") return false;
  }
  std::string remedy = remedy_for_quotes(value);
  if (is_plain_scalar(value)) {
    std::string lower = value.text;
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
    for (const char* word : {"yes", "y", "on", "1", "true", "t"}) {
      if (lower == word) remedy = "write true";
    }
    for (const char* word : {"no", "n", "off", "0", "false", "f"}) {
      if (lower == word) remedy = "write false";
    }
  }
  return Mismatch{"true or false", describe(value), remedy};
}

Read<int64_t> read_integer(const Value& value, const Range& range) {
  const std::string expected = "a whole number, " + in_words(range);
  const bool leading_zero =
      value.text.size() > 1 && value.text.find_first_not_of('-') == value.text.find('0') && value.text != "0";
  if (!is_plain_scalar(value) || !looks_like_integer(value.text) || leading_zero) {
    return Mismatch{expected, describe(value), integer_remedy(value)};
  }
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value.text.data(), value.text.data() + value.text.size(), number);
  if (value.text[0] != '-' && (error != std::errc() || number > kLargestInteger)) {
    return Mismatch{expected, describe(value), "no whole number here is above " + std::to_string(kLargestInteger)};
  }
  if (error != std::errc() || !inside(range, static_cast<double>(number)))
    return Mismatch{expected, describe(value), ""};
  return number;
}

Read<double> read_number(const Value& value, const Range& range) {
  Mismatch mismatch{"a number, " + in_words(range), describe(value), remedy_for_quotes(value)};
  if (!is_plain_scalar(value)) return mismatch;
  const auto number = parse_number(value.text);
  if (!number || !inside(range, *number)) return mismatch;
  if (std::abs(*number) > kLargestNumber) {
    mismatch.remedy = "no number here is above 3.4e38, the largest of float32, in which it is computed with";
    return mismatch;
  }
  if (*number != 0 && std::abs(*number) < kSmallestNumber) {
    mismatch.remedy = "no number here but 0 is below 1.2e-38, the smallest of float32, in which it is computed with";
    return mismatch;
  }
  return *number == 0 ? 0.0 : *number;  // no -0
}

Read<int64_t> read_size(const Value& value) {
  const Mismatch mismatch{"a size above 0", describe(value), "write a number and a unit: 24GiB, 1.5MiB, 80GB"};
  if (value.kind != Value::Kind::kScalar) return mismatch;
  try {
    const int64_t bytes = parse_bytes(value.text);
    if (bytes > 0) return bytes;
  } catch (const Error&) {  // which says of a text alone what the mismatch says with its key and place
  }
  return mismatch;
}

Read<std::string> read_text(const Value& value, const std::string& what) {
  if (value.kind != Value::Kind::kScalar) return Mismatch{what, describe(value), ""};
  if (value.text.empty()) return Mismatch{what, "an empty text", "remove the key"};
  if (!is_printable_text(value.text)) return Mismatch{what + " on one line", describe(value), ""};
  return value.text;
}

Read<std::vector<std::string>> read_paths(const Value& value, const std::string& what) {
  std::vector<Value> items = value.kind == Value::Kind::kList ? value.items : std::vector<Value>{value};
  if (items.empty()) return Mismatch{what, "an empty list", "remove the key"};
  std::vector<std::string> paths;
  std::set<std::string> seen;
  for (const Value& item : items) {
    Read<std::string> path = read_text(item, what);
    if (Mismatch* mismatch = std::get_if<Mismatch>(&path)) return std::move(*mismatch);
    if (!seen.insert(std::get<std::string>(path)).second) {
      return Mismatch{what, describe(item) + " twice", "remove one of them"};
    }
    paths.push_back(std::get<std::string>(std::move(path)));
  }
  return paths;
}

Read<std::vector<std::string>> read_names(const Value& value, const std::string& expected) {
  if (value.kind == Value::Kind::kScalar) return Mismatch{expected, describe(value), "write " + as_list(value.text)};
  if (value.kind != Value::Kind::kList || value.items.empty()) {
    return Mismatch{expected, value.kind == Value::Kind::kList ? "an empty list" : describe(value), ""};
  }
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const Value& item : value.items) {
    const bool name = item.kind == Value::Kind::kScalar && !item.text.empty() && is_printable_text(item.text);
    if (!name) return Mismatch{expected, describe(item) + " in the list", ""};
    if (!item.quoted && item.text.find(' ') != std::string::npos) {
      return Mismatch{expected, describe(item) + " in the list", "put commas between: " + as_list(item.text)};
    }
    if (!seen.insert(item.text).second) {
      return Mismatch{expected, describe(item) + " twice", "remove one of them"};
    }
    names.push_back(item.text);
  }
  return names;
}

Read<std::vector<std::string>> read_modules(const Value& value) {
  const std::string expected = "a list of module names, all-linear, or a regular expression of whole names";
  // Names without their brackets are no pattern.
  const bool is_pattern = value.text == kAllLinear || value.text.find_first_of(".*+?^$()[]{}|\\") != std::string::npos;
  if (value.kind == Value::Kind::kScalar && is_pattern && is_printable_text(value.text)) {
    return targets_of_text(value.text);
  }
  for (const Value& item : value.items) {
    const bool all = item.kind == Value::Kind::kScalar && item.text == kAllLinear;
    if (all && value.items.size() > 1) return Mismatch{expected, "both", "remove one of them"};
    if (item.text.starts_with(kPatternMark))
      return Mismatch{expected, "'" + item.text.substr(0, 40) + "'", "name a module"};
  }
  return read_names(value, expected);
}

std::string format_size(int64_t bytes) {
  constexpr std::array<std::pair<int64_t, const char*>, 3> kUnits{{{kGiB, "GiB"}, {kMiB, "MiB"}, {kKiB, "KiB"}}};
  for (const auto& [unit, name] : kUnits) {
    if (bytes % unit == 0) return std::to_string(bytes / unit) + name;
  }
  return std::to_string(bytes);
}

std::string format_number(double value) {
  std::array<char, 64> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), end);
  // YAML 1.1 takes 5e-05 for a text.
  const size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos) text.insert(exponent, ".0");
  return text;
}

}  // namespace fathom::config
