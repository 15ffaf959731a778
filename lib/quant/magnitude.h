// The largest magnitude of a run of values: what every format with a scale takes its scale from. No torch header.
#pragma once

#include <cstdint>

namespace fathom::quant {

// Runs without a larger magnitude are stored as zeros: a scale below FP32's normal numbers would lose its precision.
// No weight is near it.
inline constexpr float kSmallestMagnitude = 0x1p-100f;

// NaN if a value is NaN or infinite; 0 below kSmallestMagnitude.
float largest_magnitude(const float* values, int64_t n);

}  // namespace fathom::quant
