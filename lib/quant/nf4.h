// NF4: 16 values at the quantiles of a normal distribution, one scale for each block of 64.
//
// Source: Dettmers et al. 2023, arXiv 2305.14314 (QLoRA), section 3 and appendix E; codes, thresholds and packing as
// bitsandbytes has them, so that its files can be read: values times the reciprocal of the largest magnitude, compared
// with the midpoints between codes in FP32, as on CPUs (the literals of its CUDA kernels differ in the last place of
// four).
#pragma once

#include <array>
#include <cstdint>

namespace fathom::quant {

inline constexpr int64_t kNf4Block = 64;
extern const std::array<float, 16> kNf4Values;      // ascending, from -1 to 1
extern const std::array<float, 15> kNf4Thresholds;  // a value above threshold i has a code above i

// Quantizes one block of n <= 64 values into (n + 1) / 2 bytes, of two values the first in the high half, and returns
// the scale: the largest magnitude. Zeros have the code 7, also beside the last of an odd number of values. Zeros, NaN
// and infinities otherwise as quantize_int8.
float quantize_nf4(const float* values, int64_t n, uint8_t* codes);
void dequantize_nf4(const uint8_t* codes, float scale, int64_t n, float* values);

}  // namespace fathom::quant
