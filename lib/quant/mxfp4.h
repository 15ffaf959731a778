// MXFP4: blocks of 32 values of a row in 4 bits each, E2M1, with a power of two for a scale, of which a byte is the
// exponent (E8M0).
//
// Source: OCP Microscaling Formats (MX) Specification 1.0, sections 5 and 6; two codes in a byte as gpt-oss's folders
// have them (transformers' integrations/mxfp4.py).
#pragma once

#include <array>
#include <cstdint>

namespace fathom::quant {

inline constexpr int64_t kMxfp4Block = 32;

// By code: 0, 0.5, 1, 1.5, 2, 3, 4, 6, and from 8 on their negatives.
extern const std::array<float, 16> kMxfp4Values;
// 2^(exponent - 127), by its byte; 255, which is no number there, is infinity.
extern const std::array<float, 256> kMxfp4Scales;
// With which the largest value is finite in FP32.
inline constexpr uint8_t kLargestMxfp4Exponent = 252;

// Of a scale that quantize_mxfp4 returns.
uint8_t mxfp4_exponent(float scale);

// Quantizes a block of n <= 32 values into (n + 1) / 2 bytes, of two values the first in the low half, to the nearest
// code, and returns the scale: 2^(floor(log2(largest magnitude)) - 2), within the exponents of FP32's normal numbers.
// What is beyond 6 of it becomes 6, as the specification says. Zeros have the smallest scale; NaN and infinities any.
float quantize_mxfp4(const float* values, int64_t n, uint8_t* codes);
void dequantize_mxfp4(const uint8_t* codes, float scale, int64_t n, float* values);

}  // namespace fathom::quant
