// FP8 (E4M3) from and to FP32 by moving bits, which vectorises where a table would not.
#include "quant/fp8.h"

#include <algorithm>
#include <bit>

#include "base/clones.h"
#include "quant/magnitude.h"

namespace fathom::quant {
namespace {

// FP32 has 23 bits of fraction and a bias of 127, E4M3 has 3 and 7.
constexpr int kFractionShift = 23 - 3;
constexpr uint32_t kBiasDifference = uint32_t{127 - 7} << 23;
constexpr float kSmallestNormal = 0x1p-6f;
constexpr float kStep = 0x1p-9f;  // of the subnormal codes
constexpr uint32_t kNotANumber = 0x7f;

// `value` within ±448.
inline uint8_t encode(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  // To nearest, ties to even: a half less one, and one where the last bit kept is odd.
  const uint32_t odd = (magnitude >> kFractionShift) & 1u;
  const uint32_t normal = (magnitude - kBiasDifference + (1u << (kFractionShift - 1)) - 1u + odd) >> kFractionShift;
  // Beside a number whose last bit is worth kStep the sum is rounded to it.
  constexpr float kRounder = kStep * (1 << 23);
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + kRounder) - std::bit_cast<uint32_t>(kRounder);
  const uint32_t code = magnitude < std::bit_cast<uint32_t>(kSmallestNormal) ? subnormal : normal;
  return static_cast<uint8_t>((bits >> 24 & 0x80u) | code);
}
inline float decode(uint8_t code) {
  const uint32_t magnitude = code & 0x7fu;
  const uint32_t normal = (magnitude << kFractionShift) + kBiasDifference;
  const auto subnormal = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * kStep);
  const uint32_t number = magnitude < 8 ? subnormal : normal;
  const uint32_t bits = magnitude == kNotANumber ? 0x7fc00000u : number;
  return std::bit_cast<float>(bits | uint32_t{code & 0x80u} << 24);
}

FATHOM_CLONES void round_values(const float* values, float scale, int64_t n, uint8_t* codes) {
  for (int64_t i = 0; i < n; ++i) {
    codes[i] = encode(std::clamp(values[i] / scale, -kLargestFp8Code, kLargestFp8Code));
  }
}
FATHOM_CLONES void scale_codes(const uint8_t* codes, float scale, int64_t n, float* values) {
  for (int64_t i = 0; i < n; ++i) values[i] = decode(codes[i]) * scale;
}

}  // namespace

float quantize_fp8(const float* values, int64_t n, uint8_t* codes) {
  const float largest = largest_magnitude(values, n);
  if (!(largest > 0)) {
    std::fill_n(codes, n, uint8_t{0});
    return largest;
  }
  const float scale = largest / kLargestFp8Code;
  round_values(values, scale, n, codes);
  return scale;
}

void dequantize_fp8(const uint8_t* codes, float scale, int64_t n, float* values) {
  scale_codes(codes, scale, n, values);
}

}  // namespace fathom::quant
