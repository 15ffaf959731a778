// The frequencies of rotary positions in FP32, step by step as transformers' tensors round them.
#include "arch/rotary_frequencies.h"

#include <cmath>
#include <numbers>

namespace fathom::arch {
namespace {

float stretched(float frequency, const ScaledRope& scaling) {
  const auto original = static_cast<float>(scaling.original_positions);
  const auto factor = static_cast<float>(scaling.factor);
  const double longest = static_cast<double>(scaling.original_positions) / scaling.low_frequency_factor;
  const double shortest = static_cast<double>(scaling.original_positions) / scaling.high_frequency_factor;
  const float wavelength = (1.0f / frequency) * static_cast<float>(2 * std::numbers::pi);
  if (wavelength > static_cast<float>(longest)) return frequency / factor;
  if (wavelength < static_cast<float>(shortest)) return frequency;
  const float blend = ((1.0f / wavelength) * original - static_cast<float>(scaling.low_frequency_factor)) /
                      static_cast<float>(scaling.high_frequency_factor - scaling.low_frequency_factor);
  return (1.0f - blend) * frequency / factor + blend * frequency;
}

}  // namespace

std::vector<float> rotary_frequencies(double theta, int64_t head_size, const std::optional<ScaledRope>& scaling) {
  std::vector<float> frequencies;
  for (int64_t i = 0; i < head_size / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_size);
    const float frequency = 1.0f / static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
    frequencies.push_back(scaling ? stretched(frequency, *scaling) : frequency);
  }
  return frequencies;
}

}  // namespace fathom::arch
