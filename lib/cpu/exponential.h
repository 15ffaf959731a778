// e^x in FP32 as arithmetic alone, so that a loop over it becomes vector code.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace fathom::cpu {

// e^x to 2 units in the last place: x = n ln 2 + r with |r| <= ln 2 / 2, and a polynomial in r (Cephes' expf). The
// result is at least e^-87.3, so nothing is subnormal; NaN stays NaN, for the clamps let it through.
inline float exponential(float x) {
  x = x < -87.3f ? -87.3f : x;
  x = x > 88.7f ? 88.7f : x;
  const float n = std::nearbyint(x * 1.44269504f);
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  // n reaches 128 at the upper clamp: two factors keep each exponent in range. A NaN's n is never used as a number.
  const int32_t exponent = n == n ? static_cast<int32_t>(n) : 0;
  const int32_t half = exponent / 2;
  return p * std::bit_cast<float>((half + 127) << 23) * std::bit_cast<float>((exponent - half + 127) << 23);
}

}  // namespace fathom::cpu
