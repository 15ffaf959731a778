// Whole numbers rounded up.
#pragma once

#include <cstdint>

namespace fathom {

// Of numbers that are not negative, by positive ones, whose sum is far from the end of int64.
constexpr int64_t divide_up(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }
constexpr int64_t round_up(int64_t value, int64_t multiple) { return divide_up(value, multiple) * multiple; }

}  // namespace fathom
