// Double quantization: a table of 256 values, made as bitsandbytes makes it, and the nearest of them.
#include "quant/scales.h"

#include <algorithm>

#include "quant/magnitude.h"

namespace fathom::quant {
namespace {

constexpr int kExponents = 7;  // powers of ten: 1e-6 to 1

// Number i of `steps` + 1 from 0.1 to 1 at equal distances, from the nearer end; rounded once, as torch's linspace does
// with a fused multiplication.
constexpr float between_tenth_and_one(int i, int steps) {
  constexpr float kFirst = 0.1f, kLast = 1;
  const double step = (kLast - kFirst) / static_cast<float>(steps);
  return static_cast<float>(i < (steps + 1) / 2 ? kFirst + step * i : kLast - step * (steps - i));
}

// The sign, an exponent in unary and in the bits left a linear fraction: 2^e means of intervals between 0.1 and 1,
// times 10^(e - 6), for e from 0 to 6; and 0 and 1.
constexpr std::array<float, 256> dynamic_values() {
  constexpr float kPowersOfTen[kExponents] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1};
  std::array<float, 256> values{};
  size_t count = 0;
  for (int exponent = 0; exponent < kExponents; ++exponent) {
    const int steps = 1 << exponent;
    for (int i = 0; i < steps; ++i) {
      const float mean = (between_tenth_and_one(i, steps) + between_tenth_and_one(i + 1, steps)) / 2;
      values[count++] = kPowersOfTen[exponent] * mean;
      values[count++] = -(kPowersOfTen[exponent] * mean);
    }
  }
  values[count++] = 0;
  values[count++] = 1;
  std::sort(values.begin(), values.end());
  return values;
}
constexpr std::array<float, 256> kValues = dynamic_values();

constexpr std::array<float, 255> midpoints() {
  std::array<float, 255> between{};
  for (size_t i = 0; i < between.size(); ++i) between[i] = (kValues[i] + kValues[i + 1]) / 2;
  return between;
}
constexpr std::array<float, 255> kMidpoints = midpoints();

// A value halfway between two codes takes the lower one.
uint8_t nearest(float value) {
  return static_cast<uint8_t>(std::lower_bound(kMidpoints.begin(), kMidpoints.end(), value) - kMidpoints.begin());
}

}  // namespace

const std::array<float, 256> kDynamicValues = kValues;

float mean_scale(const float* scales, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += scales[i];
  return n == 0 ? 0 : static_cast<float>(sum / static_cast<double>(n));
}

float quantize_scales(const float* scales, float offset, int64_t n, uint8_t* codes) {
  std::array<float, kScaleBlock> left{};
  for (int64_t i = 0; i < n; ++i) left[i] = scales[i] - offset;
  const float largest = largest_magnitude(left.data(), n);
  const float reciprocal = largest > 0 ? 1 / largest : 0;
  for (int64_t i = 0; i < n; ++i) codes[i] = nearest(left[i] * reciprocal);
  return largest;
}

void dequantize_scales(const uint8_t* codes, float scale, float offset, int64_t n, float* scales) {
  for (int64_t i = 0; i < n; ++i) scales[i] = kValues[codes[i]] * scale + offset;
}

}  // namespace fathom::quant
