// 8-bit dynamic codes: a decade and a linear fraction of it, so that small values keep their first digits; one scale,
// the largest magnitude, for each block of 256 values. No torch header.
//
// Source: Dettmers et al. 2022, arXiv 2110.02861, section 2.1 and appendix F.2; tables as bitsandbytes makes them. Its
// CPU library looks codes up in 65,536 steps, its CUDA kernels divide approximately; these are the nearest ones, as its
// portable backend has them.
#pragma once

#include <array>
#include <cstdint>

namespace fathom::quant {

inline constexpr int64_t kDynamicBlock = 256;

// Magnitudes below 2^-23 share a bucket; above, each power of two has 128, and 1 has the last.
inline constexpr int kDynamicBuckets = 23 * 128 + 1;

struct DynamicMap {
  std::array<float, 256> values;     // ascending
  std::array<float, 256> midpoints;  // between a value and the next; behind the last: infinity
  // By the value's sign (the negative ones come second) and the upper bits of its magnitude: the lowest code that it
  // may have, which is that or the next. Vectors read four bytes for one.
  std::array<uint8_t, 2 * kDynamicBuckets + 3> lowest_codes;
};
extern const DynamicMap kSignedDynamic;    // from -0.99297 to 1
extern const DynamicMap kUnsignedDynamic;  // from 0 to 1, in steps half as wide

// Quantizes one block of n values and returns the scale. Halfway between two codes the lower one is taken. Zeros, NaN
// and infinities as quantize_int8.
float quantize_dynamic(const DynamicMap& map, const float* values, int64_t n, uint8_t* codes);
// map.values[code] × scale.
void dequantize_dynamic(const DynamicMap& map, const uint8_t* codes, float scale, int64_t n, float* values);

}  // namespace fathom::quant
