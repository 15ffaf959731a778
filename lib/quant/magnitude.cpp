// The largest magnitude in one pass: compared as whole numbers, which have the order of the magnitudes they encode.
#include "quant/magnitude.h"

#include <algorithm>
#include <bit>

#include "base/clones.h"

namespace fathom::quant {
namespace {

FATHOM_CLONES int32_t largest_bits(const float* values, int64_t n) {
  int32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::bit_cast<int32_t>(values[i]) & 0x7fffffff);
  return largest;
}

}  // namespace

float largest_magnitude(const float* values, int64_t n) {
  return magnitude_of_bits(static_cast<uint32_t>(largest_bits(values, n)));
}

}  // namespace fathom::quant
