// The largest magnitude of a run of values: what every format with a scale takes its scale from.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace fathom::quant {

// Runs without a larger magnitude are stored as zeros: a scale below FP32's normal numbers would lose its precision.
// No weight is near it.
inline constexpr float kSmallestMagnitude = 0x1p-100f;

// NaN if a value is NaN or infinite; 0 below kSmallestMagnitude.
float largest_magnitude(const float* values, int64_t n);

// The same of the largest magnitude's bits, for whoever finds it in a pass of its own: bits have the magnitudes' order.
constexpr float magnitude_of_bits(uint32_t largest) {
  constexpr uint32_t kInfinity = 0x7f800000;
  if (largest >= kInfinity) return std::numeric_limits<float>::quiet_NaN();
  const auto magnitude = std::bit_cast<float>(largest);
  return magnitude < kSmallestMagnitude ? 0 : magnitude;
}

}  // namespace fathom::quant
