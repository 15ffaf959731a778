// Codes by counting thresholds, values by looking them up.
#include "quant/mxfp4.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "quant/half_bytes.h"
#include "quant/magnitude.h"

namespace fathom::quant {
namespace {

constexpr std::array<float, 16> kValues = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
// Between magnitudes; one on a threshold goes to the even code.
constexpr std::array<float, 7> kThresholds = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};
constexpr int kFractionBits = 23, kLargestPower = 2;  // of FP32; of the largest value's power of two

constexpr std::array<float, 256> powers() {
  std::array<float, 256> scales{};
  scales[0] = 0x1p-127f;
  for (uint32_t byte = 1; byte < 255; ++byte) scales[byte] = std::bit_cast<float>(byte << kFractionBits);
  scales[255] = std::numeric_limits<float>::infinity();
  return scales;
}

uint8_t code_of(float value) {
  const float magnitude = std::fabs(value);
  uint8_t code = 0;
  for (size_t i = 0; i < kThresholds.size(); ++i) {
    const bool odd = i % 2 != 0;  // the code below is odd, so that the one above is even
    code += magnitude > kThresholds[i] || (odd && magnitude == kThresholds[i]) ? 1 : 0;
  }
  return static_cast<uint8_t>(code | (std::signbit(value) ? 8 : 0));
}

}  // namespace

const std::array<float, 16> kMxfp4Values = kValues;
const std::array<float, 256> kMxfp4Scales = powers();

uint8_t mxfp4_exponent(float scale) { return static_cast<uint8_t>(std::bit_cast<uint32_t>(scale) >> kFractionBits); }

float quantize_mxfp4(const float* values, int64_t n, uint8_t* codes) {
  const float largest = largest_magnitude(values, n);
  int power = std::numeric_limits<float>::min_exponent - 1;
  if (largest > 0 && std::isfinite(largest)) power = std::max(power, std::ilogb(largest) - kLargestPower);
  const float scale = std::ldexp(1.0f, power);
  std::fill_n(codes, (n + 1) / 2, uint8_t{0});
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t code = code_of(values[i] / scale);
    codes[i / 2] |= static_cast<uint8_t>(i % 2 == 0 ? code : code << 4);
  }
  return scale;
}

void dequantize_mxfp4(const uint8_t* codes, float scale, int64_t n, float* values) {
  look_up_half_bytes(kValues, codes, FirstHalf::kLow, scale, n, values);
}

}  // namespace fathom::quant
