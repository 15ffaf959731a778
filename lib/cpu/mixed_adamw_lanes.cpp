// Two blocks in one loop, sixteen elements of each at a time.
#include "cpu/mixed_adamw_lanes.h"

#ifdef FATHOM_DYNAMIC_LANES

#include <algorithm>
#include <array>

#include "quant/magnitude.h"

namespace fathom::cpu {
namespace {

constexpr int64_t kBlock = quant::kDynamicBlock, kLanes = 16;
constexpr __mmask16 kAll = 0xffff;

// The numbers of a step, in every lane.
struct Numbers {
  FATHOM_DYNAMIC_LANES explicit Numbers(const AdamWStep& step)
      : factor(_mm512_set1_ps(static_cast<float>(step.factor))),
        change1(_mm512_set1_ps(1 - static_cast<float>(step.beta1))),
        beta2(_mm512_set1_ps(static_cast<float>(step.beta2))),
        change2(_mm512_set1_ps(1 - static_cast<float>(step.beta2))),
        epsilon(_mm512_set1_ps(static_cast<float>(step.epsilon))),
        keep(_mm512_set1_ps(static_cast<float>(step.keep))),
        rate(_mm512_set1_ps(static_cast<float>(step.rate))),
        root_second(_mm512_set1_ps(static_cast<float>(step.root_second))) {}
  __m512 factor, change1, beta2, change2, epsilon, keep, rate, root_second;
};

struct Moments {
  __m512 first, second;
};

// The arithmetic of optimizer_kernels.cpp; returns the new weights.
FATHOM_DYNAMIC_LANES inline __m512 update_sixteen(const Numbers& numbers, __m512 gradient, __m512 weights,
                                                  Moments& moments) {
  gradient = _mm512_mul_ps(gradient, numbers.factor);
  moments.first = _mm512_fmadd_ps(numbers.change1, _mm512_sub_ps(gradient, moments.first), moments.first);
  const __m512 square = _mm512_mul_ps(_mm512_mul_ps(numbers.change2, gradient), gradient);
  moments.second = _mm512_fmadd_ps(numbers.beta2, moments.second, square);
  const __m512 root = _mm512_div_ps(_mm512_maskz_sqrt_ps(kAll, moments.second), numbers.root_second);
  const __m512 change = _mm512_div_ps(_mm512_mul_ps(numbers.rate, moments.first), _mm512_add_ps(root, numbers.epsilon));
  return _mm512_fmsub_ps(numbers.keep, weights, change);
}

// Of magnitudes, as whole numbers, which have their order: quant::largest_magnitude.
FATHOM_DYNAMIC_LANES float scale_of(__m512i largest) {
  alignas(64) std::array<int32_t, kLanes> lanes;
  _mm512_store_si512(lanes.data(), largest);
  return quant::magnitude_of_bits(static_cast<uint32_t>(*std::max_element(lanes.begin(), lanes.end())));
}

FATHOM_DYNAMIC_LANES inline __m512 reciprocal_of(float scale) { return _mm512_set1_ps(scale > 0 ? 1 / scale : 0); }

FATHOM_DYNAMIC_LANES inline __m512i larger(__m512i largest, __m512 values) {
  return _mm512_maskz_max_epi32(kAll, largest, _mm512_castps_si512(_mm512_abs_ps(values)));
}

}  // namespace

UpdateInLanes::UpdateInLanes(const AdamWStep& step, const QuantizedMoments& moments) : step_(step), moments_(moments) {}

template <bool kUpdates, bool kQuantizes>
FATHOM_DYNAMIC_LANES void UpdateInLanes::play(int64_t block, const float* g, const float* p, float* p_out) {
  const auto& [first_codes, first_scales, second_codes, second_scales] = moments_;
  const Waiting& before = waiting_[newest_];
  Waiting& now = waiting_[1 - newest_];
  const Numbers numbers(step_);
  const __m512 first_scale = _mm512_set1_ps(kUpdates ? first_scales[block] : 0);
  const __m512 second_scale = _mm512_set1_ps(kUpdates ? second_scales[block] : 0);
  const __m512 first_factor = reciprocal_of(kQuantizes ? first_scales[before.block] : 0);
  const __m512 second_factor = reciprocal_of(kQuantizes ? second_scales[before.block] : 0);
  __m512i first_largest = _mm512_setzero_si512(), second_largest = _mm512_setzero_si512();
  for (int64_t i = 0; i < kBlock; i += kLanes) {
    if constexpr (kUpdates) {
      const int64_t place = block * kBlock + i;
      Moments moments{
          _mm512_mul_ps(quant::sixteen_values(quant::kSignedDynamic, first_codes + place), first_scale),
          _mm512_mul_ps(quant::sixteen_values(quant::kUnsignedDynamic, second_codes + place), second_scale)};
      const __m512 weights = update_sixteen(numbers, _mm512_loadu_ps(g + i), _mm512_loadu_ps(p + i), moments);
      _mm512_storeu_ps(p_out + i, weights);
      _mm512_store_ps(now.first + i, moments.first);
      _mm512_store_ps(now.second + i, moments.second);
      first_largest = larger(first_largest, moments.first);
      second_largest = larger(second_largest, moments.second);
    }
    if constexpr (kQuantizes) {
      const int64_t place = before.block * kBlock + i;
      const __m512 first = _mm512_mul_ps(_mm512_load_ps(before.first + i), first_factor);
      const __m512 second = _mm512_mul_ps(_mm512_load_ps(before.second + i), second_factor);
      quant::quantize_sixteen<true>(quant::kSignedDynamic, first, first_codes + place);
      quant::quantize_sixteen<false>(quant::kUnsignedDynamic, second, second_codes + place);
    }
  }
  if constexpr (kUpdates) {
    now.block = block;
    newest_ = 1 - newest_;
    first_scales[block] = scale_of(first_largest);
    second_scales[block] = scale_of(second_largest);
  }
}

void UpdateInLanes::update(int64_t block, const float* g, const float* p, float* p_out) {
  waiting_[newest_].block < 0 ? play<true, false>(block, g, p, p_out) : play<true, true>(block, g, p, p_out);
}

void UpdateInLanes::finish() {
  if (waiting_[newest_].block < 0) return;
  play<false, true>(0, nullptr, nullptr, nullptr);
  waiting_[newest_].block = -1;
}

}  // namespace fathom::cpu

#endif
