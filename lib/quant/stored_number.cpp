// Each format's own functions on one number; bits written out.
#include "quant/stored_number.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "quant/float_format.h"
#include "quant/fp8.h"
#include "quant/int4.h"
#include "quant/int8.h"
#include "quant/nf4.h"

namespace fathom::quant {
namespace {

constexpr FloatFormat kFloats[] = {kFp32, kFp16, kBf16, kFp8E4m3, kFp8E5m2};

std::string binary(uint32_t code, int bits) {
  std::string text;
  for (int bit = bits - 1; bit >= 0; --bit) text += (code >> bit & 1u) != 0 ? '1' : '0';
  return text;
}

std::string float_bits(const FloatFormat& format, uint32_t code) {
  std::string text = binary(code, format.bits());
  text.insert(1 + static_cast<size_t>(format.exponent_bits), " ");
  return text.insert(1, " ");
}

StoredNumber as_float(const FloatFormat& format, double number) {
  const uint32_t code = encode(format, number);
  const double value = decode(format, code);
  const bool beyond = std::isfinite(number) && !std::isfinite(value);
  return {std::string(format.name), float_bits(format, code), value, std::nullopt, value, beyond};
}

StoredNumber as_integer(double number) {
  const double rounded = std::isnan(number) ? 0 : std::nearbyint(number) + 0.0;  // an integer has no -0
  const double code = std::min(std::max(rounded, -double{kLargestInt8Code}), double{kLargestInt8Code});
  const auto byte = static_cast<uint8_t>(static_cast<int8_t>(code));
  return {"INT8", binary(byte, 8), code, std::nullopt, code, rounded != code};
}

// With a scale: the number beside the largest, which gives the scale.
struct Pair {
  Pair(double number, float largest) : values{static_cast<float>(number), largest} {}
  std::array<float, 2> values;
  std::array<float, 2> read{};
};

StoredNumber as_scaled_fp8(Pair pair) {
  std::array<uint8_t, 2> codes{};
  const float scale = quantize_fp8(pair.values.data(), 2, codes.data());
  dequantize_fp8(codes.data(), scale, 2, pair.read.data());
  return {"FP8 E4M3", float_bits(kFp8E4m3, codes[0]), decode(kFp8E4m3, codes[0]), scale, pair.read[0]};
}

StoredNumber as_scaled_int8(Pair pair) {
  std::array<int8_t, 2> codes{};
  const float scale = quantize_int8(pair.values.data(), 2, codes.data());
  dequantize_int8(codes.data(), scale, 2, pair.read.data());
  return {"INT8", binary(static_cast<uint8_t>(codes[0]), 8), static_cast<double>(codes[0]), scale, pair.read[0]};
}

StoredNumber as_int4(Pair pair) {
  uint8_t codes = 0;
  const float scale = quantize_int4(pair.values.data(), 2, &codes);
  dequantize_int4(&codes, scale, 2, pair.read.data());
  const uint32_t code = codes & 15u;
  return {"INT4", binary(code, 4), static_cast<double>(code) + kSmallestInt4Code, scale, pair.read[0]};
}

StoredNumber as_nf4(Pair pair) {
  uint8_t codes = 0;
  const float scale = quantize_nf4(pair.values.data(), 2, &codes);
  dequantize_nf4(&codes, scale, 2, pair.read.data());
  const uint32_t code = codes >> 4;
  return {"NF4", binary(code, 4), kNf4Values[code], scale, pair.read[0]};
}

}  // namespace

std::vector<StoredNumber> stored_in_every_format(double number, float largest) {
  std::vector<StoredNumber> stored;
  for (const FloatFormat& format : kFloats) stored.push_back(as_float(format, number));
  stored.push_back(as_integer(number));
  const Pair pair(number, largest);
  for (const auto store : {as_scaled_fp8, as_scaled_int8, as_int4, as_nf4}) stored.push_back(store(pair));
  return stored;
}

float power_of_two_from(double number) {
  const double magnitude = std::abs(number);
  if (!std::isfinite(number) || magnitude == 0) return 1;
  int exponent = 0;
  const bool is_power = std::frexp(magnitude, &exponent) == 0.5;
  const double power = is_power ? magnitude : std::ldexp(1.0, exponent);
  return static_cast<float>(std::min(power, double{std::numeric_limits<float>::max()}));
}

std::vector<FormatRange> ranges_of_formats() {
  std::vector<FormatRange> ranges;
  for (const FloatFormat& format : kFloats) {
    ranges.push_back({std::string(format.name), 1, format.exponent_bits, format.fraction_bits,
                      format.smallest_subnormal(), format.smallest_normal(), -format.largest(), format.largest(),
                      format.largest_exact_integer(), format.bits() / 8.0, false});
  }
  const double int8 = kLargestInt8Code, int4 = kLargestInt4Code;
  ranges.push_back({"INT8", 1, 0, 7, std::nullopt, 1, -int8, int8, int8, 1, true});
  ranges.push_back({"INT4", 1, 0, 3, std::nullopt, 1, kSmallestInt4Code, int4, int4, 0.5, true});
  ranges.push_back({"NF4", 0, 0, 4, std::nullopt, kNf4Values[8], kNf4Values[0], kNf4Values[15], 1, 0.5, true});
  return ranges;
}

}  // namespace fathom::quant
