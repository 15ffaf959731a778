// The largest magnitude in one pass: compared as whole numbers, which have the order of the magnitudes they encode.
#include "quant/magnitude.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/clones.h"

namespace fathom::quant {
namespace {

constexpr int32_t kInfinity = 0x7f800000;

FATHOM_CLONES int32_t largest_bits(const float* values, int64_t n) {
  int32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::bit_cast<int32_t>(values[i]) & 0x7fffffff);
  return largest;
}

}  // namespace

float largest_magnitude(const float* values, int64_t n) {
  const int32_t bits = largest_bits(values, n);
  if (bits >= kInfinity) return std::numeric_limits<float>::quiet_NaN();
  const auto largest = std::bit_cast<float>(bits);
  return largest < kSmallestMagnitude ? 0 : largest;
}

}  // namespace fathom::quant
