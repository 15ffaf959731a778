// NF4: codes by counting thresholds, values by looking them up 16 at a time.
#include "quant/nf4.h"

#include <algorithm>

#include "base/clones.h"
#include "quant/magnitude.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fathom::quant {
namespace {

constexpr std::array<float, 16> kValues = {-1.0f,
                                           -0.6961928009986877f,
                                           -0.5250730514526367f,
                                           -0.39491748809814453f,
                                           -0.28444138169288635f,
                                           -0.18477343022823334f,
                                           -0.09105003625154495f,
                                           0.0f,
                                           0.07958029955625534f,
                                           0.16093020141124725f,
                                           0.24611230194568634f,
                                           0.33791524171829224f,
                                           0.44070982933044434f,
                                           0.5626170039176941f,
                                           0.7229568362236023f,
                                           1.0f};
constexpr uint8_t kZeroTwice = 0x77;  // two codes of the value 0

constexpr std::array<float, 15> midpoints() {
  std::array<float, 15> between{};
  for (size_t i = 0; i < between.size(); ++i) between[i] = (kValues[i] + kValues[i + 1]) / 2;
  return between;
}
constexpr std::array<float, 15> kMidpoints = midpoints();

FATHOM_CLONES void count_thresholds(const float* values, float reciprocal, int64_t n, uint8_t* codes) {
  for (int64_t i = 0; i < n; ++i) {
    const float fraction = values[i] * reciprocal;
    int32_t code = 0;
    for (const float threshold : kMidpoints) code += fraction > threshold ? 1 : 0;
    codes[i] = static_cast<uint8_t>(code);
  }
}

#if defined(__x86_64__)
// Values [0, n) but for the last ones that do not fill a vector; returns how many it wrote.
__attribute__((target("avx512f"))) int64_t look_up_vectors(const uint8_t* codes, float scale, int64_t n,
                                                           float* values) {
  const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(kValues.data()), _mm512_set1_ps(scale));
  constexpr __mmask8 kAll = 0xff;  // GCC takes what the forms without a mask leave undefined for a mistake
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    // A byte in each 64 bits: its high half to the first of two lanes, its low half to the second. The permutation
    // looks at the lowest four bits of a lane alone.
    const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + i / 2));
    const __m512i bytes = _mm512_maskz_cvtepu8_epi64(kAll, eight);
    const __m512i first = _mm512_maskz_srli_epi64(kAll, bytes, 4);
    const __m512i second = _mm512_maskz_slli_epi64(kAll, bytes, 32);
    _mm512_storeu_ps(values + i, _mm512_maskz_permutexvar_ps(0xffff, _mm512_or_si512(first, second), scaled));
  }
  return i;
}
#endif

}  // namespace

const std::array<float, 16> kNf4Values = kValues;
const std::array<float, 15> kNf4Thresholds = kMidpoints;

float quantize_nf4(const float* values, int64_t n, uint8_t* codes) {
  const float largest = largest_magnitude(values, n);
  if (!(largest > 0)) {
    std::fill_n(codes, (n + 1) / 2, kZeroTwice);
    return largest;
  }
  std::array<uint8_t, kNf4Block> unpacked;
  if (n % 2 != 0) unpacked[n] = kZeroTwice & 15;
  count_thresholds(values, 1 / largest, n, unpacked.data());
  for (int64_t i = 0; i < n; i += 2) codes[i / 2] = static_cast<uint8_t>(unpacked[i] << 4 | unpacked[i + 1]);
  return largest;
}

void dequantize_nf4(const uint8_t* codes, float scale, int64_t n, float* values) {
  int64_t done = 0;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) done = look_up_vectors(codes, scale, n, values);
#endif
  std::array<float, 16> scaled;
  for (size_t i = 0; i < scaled.size(); ++i) scaled[i] = kValues[i] * scale;
  for (; done < n; ++done) values[done] = scaled[done % 2 == 0 ? codes[done / 2] >> 4 : codes[done / 2] & 15];
}

}  // namespace fathom::quant
