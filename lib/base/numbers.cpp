// Rounds first and chooses the unit by what was rounded, so that no "1000 ms" stands beside "1.00 s".
#include "base/numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/bytes.h"

namespace fathom {
namespace {

constexpr const char* kNone = "—";

std::string printed(const char* format, auto... values) {
  std::array<char, 400> text{};  // the largest double in full
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

// Three digits of a value from 0.9995 to 999.5.
std::string three_digits(double value) { return format_decimal(value, value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2); }

}  // namespace

std::string format_decimal(double value, int decimals) {
  if (!std::isfinite(value)) return "not finite";
  std::string text = printed("%.*f", decimals, value);
  const size_t first = text[0] == '-' ? 1 : 0;
  for (size_t at = std::min(text.find('.'), text.size()); at > first + 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string format_counted(int64_t count, const std::string& what) {
  return format_count(count) + " " + what + (count == 1 ? "" : "s");
}

std::string format_by(const char* format, double value) { return printed(format, value); }

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return kNone;
  if (seconds == 0) return "0 s";
  if (seconds < 0.9995e-3) return three_digits(seconds * 1e6) + " µs";
  if (seconds < 0.9995) return three_digits(seconds * 1e3) + " ms";
  return seconds < 59.95 ? three_digits(seconds) + " s" : format_duration(seconds);
}

std::string format_duration(double seconds) {
  // The limit keeps the conversion defined; nobody waits that long.
  const auto whole = static_cast<long long>(std::clamp(std::round(seconds), 0.0, 1e12));
  if (whole < 60) return printed("%llds", whole);
  if (whole < 3600) return printed("%lldm%02llds", whole / 60, whole % 60);
  if (whole < 86400) return printed("%lldh%02lldm", whole / 3600, whole % 3600 / 60);
  return printed("%lldd%02lldh", whole / 86400, whole % 86400 / 3600);
}

std::string format_quantity(double value, const std::string& unit) {
  constexpr std::array<const char*, 7> kPrefixes{"", "k", "M", "G", "T", "P", "E"};
  size_t prefix = 0;
  while (value >= 999.5 && prefix + 1 < kPrefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  return three_digits(value) + " " + kPrefixes[prefix] + unit;
}

std::string format_gigabytes(int64_t bytes) {
  const double value = static_cast<double>(bytes) / 1e9;
  return value >= 0.995 ? format_decimal(value, value >= 99.95 ? 1 : 2) : printed("%.3g", value);
}

std::string format_change(double share) {
  if (share == 0) return "0";
  if (!std::isfinite(share)) return kNone;
  const double size = std::abs(100 * share);
  const std::string sign = share > 0 ? "+" : "-";
  if (size < 0.005) return sign + printed("%.1g %%", size);
  return sign + format_decimal(size, size >= 999.95 ? 0 : size >= 9.995 ? 1 : 2) + " %";
}

std::string format_deviation(int64_t figure, int64_t reference) {
  if (figure == reference) return "0";
  if (reference <= 0) return kNone;
  return format_change(static_cast<double>(figure - reference) / static_cast<double>(reference));
}

}  // namespace fathom
