// Chooses steps of 1, 2 or 5 times a power of ten.
#include "page/scale.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/bytes.h"
#include "page/html.h"

namespace fathom::page {
namespace {

// The smallest of 1, 2, 5, 10, 20 … that is at least `wanted`.
double round_step(double wanted) {
  const double power = std::pow(10.0, std::floor(std::log10(wanted)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    // A hair below: a step that is round already must not be raised by rounding.
    if (factor * power >= wanted * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

double Axis::share(double value) const {
  double result = 0;
  if (logarithmic) {
    result = value > 0 ? std::log(value / first) / std::log(last / first) : 0;
  } else {
    result = (value - first) / (last - first);
  }
  return std::isfinite(result) ? std::clamp(result, 0.0, 1.0) : 0;
}

Axis byte_axis(int64_t largest, int ticks_at_most) {
  constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  const double top = std::max<double>(static_cast<double>(largest), 1) * 1.06;
  double unit = 1;
  size_t which = 0;
  while (top / unit >= 1024 && which + 1 < kUnits.size()) {
    unit *= 1024;
    which++;
  }
  const double step = std::max(round_step(top / unit / ticks_at_most), which == 0 ? 1.0 : 0.0) * unit;
  Axis axis{.first = 0, .last = top, .ticks = {}};
  for (double at = 0; at <= top; at += step) {
    axis.ticks.push_back({at / top, at == 0 ? "0" : decimal(at / unit, 3) + " " + kUnits[which]});
  }
  return axis;
}

Axis linear_axis(double lowest, double highest, int ticks_at_most) {
  if (!std::isfinite(lowest) || !std::isfinite(highest)) return linear_axis(0, 1, ticks_at_most);
  if (highest <= lowest) {
    const double around = std::max(std::abs(lowest) * 0.5, 1e-6);
    return linear_axis(lowest - around, highest + around, ticks_at_most);
  }
  const double step = round_step((highest - lowest) / ticks_at_most);
  Axis axis{
      .first = std::floor(lowest / step + 1e-9) * step, .last = std::ceil(highest / step - 1e-9) * step, .ticks = {}};
  const auto count = static_cast<int64_t>(std::llround((axis.last - axis.first) / step));
  const int decimals = step >= 1 ? 0 : static_cast<int>(std::ceil(-std::log10(step) - 1e-9));
  for (int64_t i = 0; i <= count; ++i) {
    const double at = axis.first + static_cast<double>(i) * step;
    const bool whole = decimals == 0 && std::abs(at) < 1e15;
    axis.ticks.push_back({axis.share(at), whole ? format_count(std::llround(at)) : decimal(at, decimals)});
  }
  return axis;
}

Axis tight_logarithmic_axis(double lowest, double highest, std::string (*label)(double)) {
  if (!(lowest > 0) || !std::isfinite(lowest) || !(highest >= lowest) || !std::isfinite(highest)) {
    lowest = 1;
    highest = 10;
  }
  Axis axis{.first = lowest / 1.15, .last = highest * 1.15, .logarithmic = true, .ticks = {}};
  const bool wide = highest / lowest > 1000;  // powers of ten are enough
  const auto from = static_cast<int>(std::floor(std::log10(axis.first)));
  for (int power = from; std::pow(10.0, power) <= axis.last; ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double at = factor * std::pow(10.0, power);
      if ((wide && factor != 1) || at < axis.first || at > axis.last) continue;
      axis.ticks.push_back({axis.share(at), label(at)});
    }
  }
  if (axis.ticks.empty()) axis.ticks = {{axis.share(lowest), label(lowest)}};
  return axis;
}

Axis logarithmic_axis(double lowest, double highest, double base, std::string (*label)(double), int ticks_at_most) {
  if (!(lowest > 0) || !std::isfinite(lowest)) lowest = 1;
  if (!(highest > lowest) || !std::isfinite(highest)) highest = lowest * base;
  const double unit = std::log(base);
  const auto from = static_cast<int64_t>(std::floor(std::log(lowest) / unit + 1e-9));
  const auto to = std::max(from + 1, static_cast<int64_t>(std::ceil(std::log(highest) / unit - 1e-9)));
  Axis axis{.first = std::pow(base, from), .last = std::pow(base, to), .logarithmic = true, .ticks = {}};
  const int64_t every = (to - from + std::max(ticks_at_most - 2, 0)) / std::max(ticks_at_most - 1, 1);
  for (int64_t power = from; power <= to; power += std::max<int64_t>(every, 1)) {
    const double at = std::pow(base, power);
    axis.ticks.push_back({axis.share(at), label(at)});
  }
  return axis;
}

}  // namespace fathom::page
