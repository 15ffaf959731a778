// Looks 16 values up at a time, where the processor can.
#include "quant/half_bytes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fathom::quant {
namespace {

#if defined(__x86_64__)
// Values [0, n) but for the last ones that do not fill a vector; returns how many it wrote.
template <FirstHalf kFirst>
__attribute__((target("avx512f"))) int64_t look_up_vectors(const std::array<float, 16>& table, const uint8_t* codes,
                                                           float scale, int64_t n, float* values) {
  const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(table.data()), _mm512_set1_ps(scale));
  constexpr __mmask8 kAll = 0xff;  // GCC takes what the forms without a mask leave undefined for a mistake
  constexpr bool kLowFirst = kFirst == FirstHalf::kLow;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    // A byte in each 64 bits: one half to the first of two lanes, the other to the second. The permutation looks at the
    // lowest four bits of a lane alone.
    const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + i / 2));
    const __m512i bytes = _mm512_maskz_cvtepu8_epi64(kAll, eight);
    const __m512i first = kLowFirst ? bytes : _mm512_maskz_srli_epi64(kAll, bytes, 4);
    const __m512i second = _mm512_maskz_slli_epi64(kAll, bytes, kLowFirst ? 28 : 32);
    _mm512_storeu_ps(values + i, _mm512_maskz_permutexvar_ps(0xffff, _mm512_or_si512(first, second), scaled));
  }
  return i;
}
#endif

template <FirstHalf kFirst>
void look_up(const std::array<float, 16>& table, const uint8_t* codes, float scale, int64_t n, float* values) {
  int64_t done = 0;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) done = look_up_vectors<kFirst>(table, codes, scale, n, values);
#endif
  for (; done < n; ++done) {
    const bool low = (done % 2 == 0) == (kFirst == FirstHalf::kLow);
    values[done] = table[low ? codes[done / 2] & 15 : codes[done / 2] >> 4] * scale;
  }
}

}  // namespace

void look_up_half_bytes(const std::array<float, 16>& table, const uint8_t* codes, FirstHalf first, float scale,
                        int64_t n, float* values) {
  first == FirstHalf::kLow ? look_up<FirstHalf::kLow>(table, codes, scale, n, values)
                           : look_up<FirstHalf::kHigh>(table, codes, scale, n, values);
}

}  // namespace fathom::quant
