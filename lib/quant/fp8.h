// FP8 (E4M3) with a scale: value = code × scale, so that the largest magnitude takes the largest code, 448.
//
// Source of the format: Micikevicius et al. 2022, arXiv 2209.05433 (no infinities; quant/float_format.h has its bits).
#pragma once

#include <cstdint>

namespace fathom::quant {

inline constexpr float kLargestFp8Code = 448, kLargestE5m2Code = 57344;
// Sides of matrices that a GPU multiplies in FP8 are multiples of it (aten::_scaled_mm).
inline constexpr int64_t kFp8Sides = 16;
// Of a matrix that a kernel of fathom's quantizes there.
inline constexpr int64_t kWidestFp8Row = 16384;

// Writes n codes, rounded to nearest even, and returns the scale: the largest magnitude / 448. Never the code of NaN:
// zeros, NaN and infinities as quantize_int8. The codes are those of torchao and compressed-tensors: each value / the
// scale.
float quantize_fp8(const float* values, int64_t n, uint8_t* codes);
void dequantize_fp8(const uint8_t* codes, float scale, int64_t n, float* values);

}  // namespace fathom::quant
