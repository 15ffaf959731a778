// INT4, symmetric, in groups: value = code × scale, codes from -8 to 7, two to a byte.
//
// One scale for each group of values that the caller chooses, of 32 or 128 mostly. The scale is the largest magnitude /
// 7.5, half the distance from -8 to 7, so that no value is off by more than half a step: a value that is the largest
// itself becomes 7 or -8. This is how compressed-tensors quantizes with `symmetric: true` and `strategy: group` and how
// its "pack-quantized" files have the bytes; torchao's scale is the same, but it multiplies by its reciprocal.
#pragma once

#include <cstdint>

namespace fathom::quant {

inline constexpr float kInt4CodesPerSide = 7.5f;
inline constexpr int kSmallestInt4Code = -8;
inline constexpr int kLargestInt4Code = 7;

// Quantizes a group of n values into (n + 1) / 2 bytes, code + 8 in four bits, of two values the first in the low half,
// rounded to nearest even, and returns the scale. Zeros, NaN and infinities as quantize_int8.
float quantize_int4(const float* values, int64_t n, uint8_t* codes);
// The same with a scale that is given, not 0: values beyond its range take the outermost code. With a group's own scale
// values that have been read back give their codes again; with quantize_int4 they do not always, for want of the
// largest value.
void quantize_int4_with(const float* values, float scale, int64_t n, uint8_t* codes);
void dequantize_int4(const uint8_t* codes, float scale, int64_t n, float* values);

}  // namespace fathom::quant
