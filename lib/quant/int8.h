// INT8, symmetric: value = code × scale, codes from -127 to 127.
//
// One scale for each run of values that the caller chooses: a row of a matrix (a channel), a block, a whole tensor.
// Source: Dettmers et al. 2022, arXiv 2208.07339, section 2 (absmax quantization). Codes as bitsandbytes' "vectorwise"
// ones: each value times 127 / the largest magnitude, two roundings in FP32. It keeps the largest magnitude itself.
#pragma once

#include <cstdint>

namespace fathom::quant {

inline constexpr float kLargestInt8Code = 127;

// Writes n codes, rounded to nearest even, and returns the scale: the largest magnitude / 127. Values that are all zero
// give zero codes and the scale 0. A NaN or an infinity among them makes the scale NaN, so that every value read back
// is.
float quantize_int8(const float* values, int64_t n, int8_t* codes);
// The values again, in FP32.
void dequantize_int8(const int8_t* codes, float scale, int64_t n, float* values);
// The sum of n products of codes, exact up to 2^31 / 128^2 - 1 of them.
int32_t dot_int8(const int8_t* x, const int8_t* y, int64_t n);

}  // namespace fathom::quant
