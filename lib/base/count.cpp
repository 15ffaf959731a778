// Numbers with a letter for a power of 1000.
#include "base/count.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace fathom {
namespace {

constexpr double kMost = 1e18;

struct CountUnit {
  char letter;
  double factor;
};
constexpr std::array<CountUnit, 4> kCountUnits{{{'T', 1e12}, {'B', 1e9}, {'M', 1e6}, {'K', 1e3}}};

}  // namespace

std::optional<double> parse_count(std::string_view text) {
  double factor = 1;
  if (!text.empty()) {
    const auto letter = static_cast<char>(std::toupper(static_cast<unsigned char>(text.back())));
    for (const CountUnit& unit : kCountUnits) {
      if (unit.letter == letter) factor = unit.factor;
    }
    if (factor > 1) text.remove_suffix(1);
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const bool sound = error == std::errc() && end == text.data() + text.size() && std::isfinite(number) && number >= 0;
  if (!sound || number * factor > kMost) return std::nullopt;
  return number * factor;
}

std::string short_count(double count) {
  std::array<char, 32> digits{};
  std::string letter;
  for (const CountUnit& unit : kCountUnits) {
    if (count < unit.factor * 0.9995) continue;
    count /= unit.factor;
    letter = unit.letter;
    break;
  }
  std::snprintf(digits.data(), digits.size(), "%.3g", count);
  return digits.data() + letter;
}

}  // namespace fathom
