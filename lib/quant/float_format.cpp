// Codes as whole numbers: a code without its sign counts the numbers of the format from 0 upwards.
#include "quant/float_format.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fathom::quant {
namespace {

uint32_t ones(int count) { return (uint32_t{1} << count) - 1; }

// The code of the largest number: below infinity, or below the NaN of ones.
uint32_t largest_code(const FloatFormat& format) {
  const uint32_t all = ones(format.exponent_bits + format.fraction_bits);
  return format.has_infinities ? all - ones(format.fraction_bits) - 1 : all - 1;
}

uint32_t nan_code(const FloatFormat& format) {
  const uint32_t infinity = largest_code(format) + 1;
  return format.has_infinities ? infinity | uint32_t{1} << (format.fraction_bits - 1) : infinity;
}

// The number is finite and not negative; the code is past the largest where it rounds to more.
uint64_t round_to_code(const FloatFormat& format, double magnitude) {
  const int smallest_exponent = 1 - format.bias;
  const int exponent = magnitude == 0 ? smallest_exponent : std::max(std::ilogb(magnitude), smallest_exponent);
  const double steps = std::nearbyint(std::ldexp(magnitude, format.fraction_bits - exponent));
  // From 2^fraction_bits on the number of steps counts the exponent field up by itself.
  return (static_cast<uint64_t>(exponent - smallest_exponent) << format.fraction_bits) + static_cast<uint64_t>(steps);
}

}  // namespace

double FloatFormat::largest() const { return decode(*this, largest_code(*this)); }
double FloatFormat::smallest_normal() const { return std::ldexp(1.0, 1 - bias); }
double FloatFormat::smallest_subnormal() const { return std::ldexp(1.0, 1 - bias - fraction_bits); }
double FloatFormat::largest_exact_integer() const { return std::ldexp(1.0, fraction_bits + 1); }

uint32_t encode(const FloatFormat& format, double value, Overflow overflow) {
  const uint32_t sign = std::signbit(value) ? uint32_t{1} << (format.bits() - 1) : 0;
  if (std::isnan(value)) return sign | nan_code(format);
  const uint32_t largest = largest_code(format);
  const uint64_t code = std::isinf(value) ? uint64_t{largest} + 1 : round_to_code(format, std::abs(value));
  if (code <= largest) return sign | static_cast<uint32_t>(code);
  return sign | (overflow == Overflow::kSaturate ? largest : largest + 1);
}

double decode(const FloatFormat& format, uint32_t code) {
  const uint32_t magnitude = code & ones(format.exponent_bits + format.fraction_bits);
  const double sign = (code >> (format.bits() - 1) & 1u) != 0 ? -1.0 : 1.0;
  if (magnitude > largest_code(format)) {
    const bool infinity = format.has_infinities && magnitude == largest_code(format) + 1;
    return std::copysign(infinity ? std::numeric_limits<double>::infinity() : std::nan(""), sign);
  }
  const auto exponent = static_cast<int>(magnitude >> format.fraction_bits);
  const uint32_t fraction = magnitude & ones(format.fraction_bits);
  const uint32_t steps = exponent == 0 ? fraction : fraction + (uint32_t{1} << format.fraction_bits);
  return sign * std::ldexp(steps, std::max(exponent, 1) - format.bias - format.fraction_bits);
}

}  // namespace fathom::quant
