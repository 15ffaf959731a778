// Axes: round ticks for what is to be shown.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fathom::page {

struct Tick {
  double share = 0;  // of the axis, 0 at its start and 1 at its end
  std::string label;
};

struct Axis {
  double first = 0, last = 1;  // the values at its ends; last > first
  bool logarithmic = false;
  std::vector<Tick> ticks;
  // Where `value` is, 0 … 1; what lies outside is put on the nearer end.
  double share(double value) const;
};

// From 0 to `largest` and a little more; ticks are round numbers of one binary unit: "0", "100 MiB", "200 MiB".
Axis byte_axis(int64_t largest, int ticks_at_most = 6);
// Around [lowest, highest], both on ticks.
Axis linear_axis(double lowest, double highest, int ticks_at_most = 6);
// Around [lowest, highest], both above 0, without margins to the next power of ten: ticks at 1, 2 and 5 times powers of
// ten.
Axis tight_logarithmic_axis(double lowest, double highest, std::string (*label)(double));
// From a power of `base` at or below `lowest` (above 0) to one at or above `highest`; `label` writes a value.
Axis logarithmic_axis(double lowest, double highest, double base, std::string (*label)(double), int ticks_at_most = 8);

}  // namespace fathom::page
