// 8-bit dynamic codes: a decade and a linear fraction of it, so that small values keep their first digits; one scale,
// the largest magnitude, for each block of 256 values.
//
// Source: Dettmers et al. 2022, arXiv 2110.02861, section 2.1 and appendix F.2; tables as bitsandbytes makes them. Its
// CPU library looks codes up in 65,536 steps, its CUDA kernels divide approximately; these are the nearest ones, as its
// portable backend has them.
#pragma once

#include <array>
#include <cstdint>

namespace fathom::quant {

inline constexpr int64_t kDynamicBlock = 256;

// A value below it, of 1, is nearest to 0.
inline constexpr float kSmallestDynamic = 0x1p-23f;

struct DynamicMap {
  bool with_signs;
  int zero;                          // the code of 0: further ones count magnitudes up, and with signs down
  std::array<float, 256> values;     // ascending
  std::array<float, 256> midpoints;  // between a value and the next; behind the last: infinity
  // As many midpoints lie between 0 and a magnitude as a line says there, rounded down, or one more. A power of two has
  // the lines of the decades of its two ends, of which the lower one counts; by the last five bits of FP32's exponent,
  // which tell apart those from kSmallestDynamic to 1.
  struct alignas(64) Lines {
    std::array<float, 32> slopes, offsets;
  };
  Lines first_lines, last_lines;
};
// Midpoints above 0, one for each magnitude that a code may have there.
constexpr int dynamic_ranks(const DynamicMap& map) { return 255 - map.zero; }

// The ranks of a decade's codes, less one, from 10^(exponent - 7) to ten times that. Lifted by a half, which makes up
// for what FP32 rounds off, for the wider step to the next decade, and for the one to 1.
struct DynamicLine {
  double slope, offset;
  constexpr double at(double magnitude) const { return slope * magnitude + offset; }
};
inline constexpr int kDynamicDecades = 7;  // 1e-6 to 1
// exponent: from 0 to 6. The lowest of all decades' lines at a magnitude is its own decade's, as the slopes fall.
constexpr DynamicLine line_of_decade(int exponent, bool with_signs) {
  constexpr double kTenTo[kDynamicDecades] = {1e6, 1e5, 1e4, 1e3, 1e2, 1e1, 1};
  const double codes = (with_signs ? 1 : 2) << exponent, rank = with_signs ? codes : codes - 1;
  return {codes / 0.9 * kTenTo[exponent], rank - codes / 9 + 0.5 - 1};
}

extern const DynamicMap kSignedDynamic;    // from -0.99297 to 1
extern const DynamicMap kUnsignedDynamic;  // from 0 to 1, in steps half as wide

// Quantizes one block of n values and returns the scale. Halfway between two codes the lower one is taken. Zeros, NaN
// and infinities as quantize_int8.
float quantize_dynamic(const DynamicMap& map, const float* values, int64_t n, uint8_t* codes);
// map.values[code] × scale.
void dequantize_dynamic(const DynamicMap& map, const uint8_t* codes, float scale, int64_t n, float* values);

}  // namespace fathom::quant
