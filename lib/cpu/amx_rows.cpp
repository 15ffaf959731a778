// Sixteen numbers at a time.
#include "cpu/amx_rows.h"

#ifdef FATHOM_AMX

#include <cmath>

#include "cpu/amx_lanes.h"

namespace fathom::cpu::amx {
namespace {

// 2^x to 2 units in the last place: x = n + r with |r| <= 1/2, and a polynomial in r (Cephes' exp2f). At least 2^-126;
// NaN stays NaN, for maximum and minimum answer with their second operand.
FATHOM_AMX inline __m512 power_of_two(__m512 x) {
  x = _mm512_max_ps(_mm512_set1_ps(-126.0f), x);
  const __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 r = _mm512_sub_ps(x, n);
  __m512 p = _mm512_set1_ps(1.535336188319500e-4f);
  for (const float coefficient : {1.339887440266574e-3f, 9.618437357674640e-3f, 5.550332471162809e-2f,
                                  2.402264791363012e-1f, 6.931472028550421e-1f, 1.0f}) {
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(coefficient));
  }
  return _mm512_scalef_ps(p, n);
}

FATHOM_AMX inline __m256i rounded(__m512 x) { return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)); }

FATHOM_AMX inline void store(uint16_t* out, __m256i x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), x); }

}  // namespace

FATHOM_AMX float softmax_part(const float* scores, int64_t seen, int64_t count, float scale, RunningSoftmax& row,
                              uint16_t* probabilities) {
  __m512 most = _mm512_set1_ps(row.most);
  for (int64_t i = 0; i < seen; i += kLanes) {
    const __mmask16 lanes = first_lanes(seen - i);
    const __m512 scaled = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, scores + i), _mm512_set1_ps(scale));
    most = _mm512_mask_max_ps(most, lanes, most, scaled);
  }
  const float before = row.most;
  row.most = _mm512_reduce_max_ps(most);
  const __m512 shift = _mm512_set1_ps(row.most);
  __m512 sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < seen; i += kLanes) {
    const __mmask16 lanes = first_lanes(seen - i);
    const __m512 score = _mm512_maskz_loadu_ps(lanes, scores + i);
    const __m512 power = power_of_two(_mm512_fmsub_ps(score, _mm512_set1_ps(scale), shift));
    const __m512 each = _mm512_maskz_mov_ps(lanes, power);
    sum = _mm512_add_ps(sum, each);
    store(probabilities + i, rounded(each));
  }
  for (int64_t i = (seen + kLanes - 1) / kLanes * kLanes; i < count; i += kLanes) {
    store(probabilities + i, _mm256_setzero_si256());
  }
  const float factor = std::exp2(before - row.most);
  row.sum = row.sum * factor + _mm512_reduce_add_ps(sum);
  return factor;
}

FATHOM_AMX void score_gradients(const KeyPair& keys, float scale, const float* logsumexp, const float* shift) {
  for (int64_t j = 0; j < keys.count; j += kLanes) {
    __m256i made[2];
    for (int i = 0; i < 2; ++i) {
      const __mmask16 seen = static_cast<__mmask16>(~first_lanes(keys.first_seen + i - j));
      const __m512 score = _mm512_loadu_ps(keys.scores[i] + j);
      const __m512 exponent = _mm512_fmsub_ps(score, _mm512_set1_ps(scale), _mm512_loadu_ps(logsumexp + j));
      const __m512 probability = _mm512_maskz_mov_ps(seen, power_of_two(exponent));
      const __m512 centred = _mm512_sub_ps(_mm512_loadu_ps(keys.gradients[i] + j), _mm512_loadu_ps(shift + j));
      made[i] = rounded(_mm512_mul_ps(probability, centred));
      store(keys.probabilities[i] + j, rounded(probability));
      store(keys.score_gradients[i] + j, made[i]);
    }
    const __m512i second = _mm512_slli_epi32(_mm512_cvtepu16_epi32(made[1]), 16);
    _mm512_storeu_si512(keys.paired_gradients + 2 * j, _mm512_or_si512(_mm512_cvtepu16_epi32(made[0]), second));
  }
}

FATHOM_AMX float dot(const uint16_t* x, const uint16_t* y, int64_t count) {
  __m512 sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < count; i += kLanes) {
    const __mmask16 lanes = first_lanes(count - i);
    sum = _mm512_fmadd_ps(widened(_mm256_maskz_loadu_epi16(lanes, x + i)),
                          widened(_mm256_maskz_loadu_epi16(lanes, y + i)), sum);
  }
  return _mm512_reduce_add_ps(sum);
}

FATHOM_AMX void scale_row(float* x, float factor, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    _mm512_storeu_ps(x + i, _mm512_mul_ps(_mm512_loadu_ps(x + i), _mm512_set1_ps(factor)));
  }
}

FATHOM_AMX void add_row(float* sum, const float* x, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    _mm512_storeu_ps(sum + i, _mm512_add_ps(_mm512_loadu_ps(sum + i), _mm512_loadu_ps(x + i)));
  }
}

FATHOM_AMX void round_row(const float* x, int64_t stride, float factor, uint16_t* out, int64_t count) {
  const __m512i lanes_apart =
      _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                         _mm512_set1_epi32(static_cast<int>(stride)));
  for (int64_t i = 0; i < count; i += kLanes) {
    const __mmask16 lanes = first_lanes(count - i);
    const __m512 values = stride == 1
                              ? _mm512_maskz_loadu_ps(lanes, x + i)
                              : _mm512_mask_i32gather_ps(_mm512_setzero_ps(), lanes, lanes_apart, x + i * stride, 4);
    _mm256_mask_storeu_epi16(out + i, lanes, rounded(_mm512_mul_ps(values, _mm512_set1_ps(factor))));
  }
}

}  // namespace fathom::cpu::amx

#endif
