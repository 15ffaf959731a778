// Dynamic codes of sixteen values at a time, for loops in AVX-512.
#pragma once

#include "quant/dynamic.h"

#if defined(__x86_64__)
#define FATHOM_DYNAMIC_LANES __attribute__((target("avx512f")))

#include <immintrin.h>

namespace fathom::quant {

inline bool has_dynamic_lanes() { return __builtin_cpu_supports("avx512f") != 0; }

// GCC takes what the forms of instructions without a mask leave undefined for a mistake.
inline constexpr __mmask16 kSixteen = 0xffff;

// The values of the codes, which their scale multiplies.
FATHOM_DYNAMIC_LANES inline __m512 sixteen_values(const DynamicMap& map, const uint8_t* codes) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
  const __m512i places = _mm512_maskz_cvtepu8_epi32(kSixteen, bytes);
  return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), kSixteen, places, map.values.data(), 4);
}

FATHOM_DYNAMIC_LANES inline __m512 pick_sixteen(const std::array<float, 32>& table, __m512i places) {
  return _mm512_permutex2var_ps(_mm512_loadu_ps(table.data()), places, _mm512_loadu_ps(table.data() + 16));
}

FATHOM_DYNAMIC_LANES inline __m512 sixteen_places(const DynamicMap::Lines& lines, __m512 magnitudes, __m512i powers) {
  return _mm512_fmadd_ps(magnitudes, pick_sixteen(lines.slopes, powers), pick_sixteen(lines.offsets, powers));
}

// The nearest codes of fractions of the largest magnitude. kWithSigns: as map.with_signs.
template <bool kWithSigns>
FATHOM_DYNAMIC_LANES inline void quantize_sixteen(const DynamicMap& map, __m512 fractions, uint8_t* codes) {
  const __m512i none = _mm512_setzero_si512(), one = _mm512_set1_epi32(1), zero = _mm512_set1_epi32(map.zero);
  const __m512 smallest = _mm512_set1_ps(kSmallestDynamic);
  const __m512 magnitudes = _mm512_maskz_max_ps(kSixteen, kWithSigns ? _mm512_abs_ps(fractions) : fractions, smallest);
  const __m512i powers =
      _mm512_maskz_srli_epi32(kSixteen, _mm512_castps_si512(magnitudes), 23);  // 5 bits are looked at
  const __m512 places = _mm512_maskz_min_ps(kSixteen, sixteen_places(map.first_lines, magnitudes, powers),
                                            sixteen_places(map.last_lines, magnitudes, powers));
  // Unsigned, so that NaN, which becomes the least number there is, has a rank too.
  const __m512i last = _mm512_set1_epi32(dynamic_ranks(map) - 1);
  const __m512i ranks = _mm512_maskz_min_epu32(kSixteen, _mm512_maskz_cvttps_epi32(kSixteen, places), last);
  const __m512i borders = _mm512_mask_i32gather_epi32(none, kSixteen, ranks, map.midpoints.data() + map.zero, 4);
  __m512i bits = _mm512_castps_si512(magnitudes);  // have the order of the magnitudes
  if constexpr (!kWithSigns) {
    const __mmask16 beyond = _mm512_cmpgt_epi32_mask(bits, borders);
    const __m512i nearest = _mm512_mask_add_epi32(ranks, beyond, ranks, one);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes), _mm512_maskz_cvtepi32_epi8(kSixteen, nearest));
    return;
  }
  // Halfway between two codes the lower one is taken: of negative values that of the larger magnitude.
  const __mmask16 negative = _mm512_cmplt_epi32_mask(_mm512_castps_si512(fractions), none);
  bits = _mm512_mask_add_epi32(bits, negative, bits, one);
  const __mmask16 beyond = _mm512_cmpgt_epi32_mask(bits, borders);
  const __m512i steps = _mm512_mask_add_epi32(ranks, beyond, ranks, one);
  __m512i nearest = _mm512_mask_sub_epi32(_mm512_add_epi32(zero, steps), negative, zero, steps);
  nearest = _mm512_maskz_max_epi32(kSixteen, nearest, none);  // there is no code of -1
  _mm_storeu_si128(reinterpret_cast<__m128i*>(codes), _mm512_maskz_cvtepi32_epi8(kSixteen, nearest));
}

}  // namespace fathom::quant

#endif
