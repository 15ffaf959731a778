// Binary floating-point formats described by a few numbers: from a value to the bits that are stored, and back. For
// showing and checking: what runs over many values has code of its own (quant/fp8.h).
//
// A code is, from the highest bit, a sign, an exponent and a fraction: (-1)^sign × 1.fraction × 2^(exponent - bias),
// and where the exponent is 0, "subnormal", (-1)^sign × 0.fraction × 2^(1 - bias). Sources: FP32 and FP16: IEEE
// 754-2019. BF16: FP32's upper half. FP8: Micikevicius et al. 2022, arXiv 2209.05433.
#pragma once

#include <cstdint>
#include <string_view>

namespace fathom::quant {

struct FloatFormat {
  std::string_view name;
  int exponent_bits;
  int fraction_bits;
  int bias;
  // As in IEEE 754 an exponent of ones stands for infinity and NaN. Without: only the fraction of ones beside it, for
  // NaN.
  bool has_infinities;

  int bits() const { return 1 + exponent_bits + fraction_bits; }
  double largest() const;
  double smallest_normal() const;
  double smallest_subnormal() const;
  double largest_exact_integer() const;  // it and every smaller one are stored exactly
};

inline constexpr FloatFormat kFp32 = {"FP32", 8, 23, 127, true};
inline constexpr FloatFormat kFp16 = {"FP16", 5, 10, 15, true};
inline constexpr FloatFormat kBf16 = {"BF16", 8, 7, 127, true};
inline constexpr FloatFormat kFp8E4m3 = {"FP8 E4M3", 4, 3, 7, false};
inline constexpr FloatFormat kFp8E5m2 = {"FP8 E5M2", 5, 2, 15, true};

// What becomes of a value that would round past the largest number.
enum class Overflow {
  kSpecial,   // infinity, or NaN where the format has none: what a plain cast does
  kSaturate,  // the largest number, infinities too
};

// Rounds to nearest, ties to the even code. NaN gives one code, with the sign kept.
uint32_t encode(const FloatFormat& format, double value, Overflow overflow = Overflow::kSpecial);
// Exactly; of a code with more bits the upper ones are not looked at.
double decode(const FloatFormat& format, uint32_t code);

}  // namespace fathom::quant
