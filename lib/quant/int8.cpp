// INT8: one multiplication and one rounding for each value.
#include "quant/int8.h"

#include <algorithm>
#include <cmath>

#include "base/clones.h"
#include "quant/magnitude.h"

namespace fathom::quant {
namespace {

FATHOM_CLONES void round_values(const float* values, float codes_per_unit, int64_t n, int8_t* codes) {
  for (int64_t i = 0; i < n; ++i) codes[i] = static_cast<int8_t>(std::nearbyint(values[i] * codes_per_unit));
}
FATHOM_CLONES void scale_codes(const int8_t* codes, float scale, int64_t n, float* values) {
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<float>(codes[i]) * scale;
}

FATHOM_CLONES int32_t sum_of_products(const int8_t* x, const int8_t* y, int64_t n) {
  int32_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<int16_t>(x[i] * y[i]);
  return sum;
}

}  // namespace

float quantize_int8(const float* values, int64_t n, int8_t* codes) {
  const float largest = largest_magnitude(values, n);
  if (!(largest > 0)) {
    std::fill_n(codes, n, int8_t{0});
    return largest;
  }
  round_values(values, kLargestInt8Code / largest, n, codes);
  return largest / kLargestInt8Code;
}

void dequantize_int8(const int8_t* codes, float scale, int64_t n, float* values) {
  scale_codes(codes, scale, n, values);
}

int32_t dot_int8(const int8_t* x, const int8_t* y, int64_t n) { return sum_of_products(x, y, n); }

}  // namespace fathom::quant
