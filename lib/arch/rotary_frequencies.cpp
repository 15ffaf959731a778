// The frequencies of rotary positions in FP32, step by step as transformers' tensors round them.
#include "arch/rotary_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace fathom::arch {
namespace {

// theta^(2 i / width) for each pair, of the theta that NtkRope makes larger.
std::vector<float> periods(const Rotary& rotary) {
  std::vector<float> result;
  double theta = rotary.theta;
  if (const auto* ntk = std::get_if<NtkRope>(&rotary.scaling)) {
    const auto width = static_cast<double>(rotary.width);
    theta *= std::pow(ntk->alpha, width / (width - 2));
  }
  for (int64_t i = 0; i < rotary.width / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rotary.width);
    result.push_back(static_cast<float>(std::pow(theta, static_cast<double>(exponent))));
  }
  return result;
}

float stretched(float frequency, const Llama3Rope& scaling) {
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

std::vector<float> frequencies(const Rotary& rotary, const YarnRope& yarn) {
  const auto width = static_cast<double>(rotary.width);
  // The number of a pair, as a fraction, that turns so often within the original positions.
  const auto pair_of = [&](double turns) {
    return width * std::log(static_cast<double>(yarn.original_positions) / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rotary.theta));
  };
  double first = pair_of(yarn.fast_turns), last = pair_of(yarn.slow_turns);
  if (yarn.whole_pairs) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, width - 1);
  if (first == last) last += 0.001;
  std::vector<float> result;
  for (const float period : periods(rotary)) {
    const float ramp =
        (static_cast<float>(result.size()) - static_cast<float>(first)) / static_cast<float>(last - first);
    const float kept = 1.0f - std::clamp(ramp, 0.0f, 1.0f);
    const float slow = 1.0f / (static_cast<float>(yarn.factor) * period), fast = 1.0f / period;
    result.push_back(slow * (1.0f - kept) + fast * kept);
  }
  return result;
}

}  // namespace

std::vector<float> rotary_frequencies(const Rotary& rotary, bool beyond_original) {
  if (rotary.still_front > 0) {
    Rotary behind = rotary;
    behind.width -= std::exchange(behind.still_front, 0);
    std::vector<float> result = rotary_frequencies(behind, beyond_original);
    result.insert(result.begin(), static_cast<size_t>(rotary.still_front / 2), 0.0f);
    return result;
  }
  if (const auto* yarn = std::get_if<YarnRope>(&rotary.scaling)) return frequencies(rotary, *yarn);
  std::vector<float> result = periods(rotary);
  for (size_t i = 0; i < result.size(); ++i) {
    float& value = result[i];
    if (const auto* longrope = std::get_if<LongRope>(&rotary.scaling)) {
      value *= static_cast<float>((beyond_original ? longrope->long_factors : longrope->short_factors)[i]);
    }
    value = 1.0f / value;
    if (const auto* linear = std::get_if<LinearRope>(&rotary.scaling)) value /= static_cast<float>(linear->factor);
    if (const auto* llama3 = std::get_if<Llama3Rope>(&rotary.scaling)) value = stretched(value, *llama3);
  }
  std::fill(result.end() - rotary.still_pairs, result.end(), 0.0f);
  return result;
}

int64_t original_positions(const Rotary& rotary) {
  const auto* longrope = std::get_if<LongRope>(&rotary.scaling);
  return longrope != nullptr ? longrope->original_positions : 0;
}

double query_scale(const Rotary& rotary, int64_t position) {
  const int64_t steps = position / rotary.query_growth_positions;
  return rotary.query_scale * (1 + rotary.query_growth * std::log1p(static_cast<double>(steps)));
}

}  // namespace fathom::arch
