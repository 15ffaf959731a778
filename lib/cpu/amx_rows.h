// What attention computes between its products: rows of scores, probabilities and their gradients, in FP32 by AVX512.
// For CPUs with AMX and AVX512_BF16.
//
// Exponents and logarithms are of base 2, so that one factor on the scores holds both the softmax's scale and log2(e).
#pragma once

#include <cstdint>

#include "cpu/amx_tiles.h"

#ifdef FATHOM_AMX

namespace fathom::cpu::amx {

// The softmax of a row that comes in parts (Milakov and Gimelshein 2018, arXiv 1805.02867).
struct RunningSoftmax {
  float most, sum;  // of the scores so far, scaled; of 2^(score - most)
};
// scores [count], of which the first `seen` (at least one) count, become 2^(score * scale - most) in BF16, the others
// 0. Returns by what all that was made of the row's earlier parts must be multiplied.
float softmax_part(const float* scores, int64_t seen, int64_t count, float scale, RunningSoftmax& row,
                   uint16_t* probabilities);

// Of two keys, the rows [i] of their scores with `count` queries and of the gradients of their probabilities. Query j
// sees key i from first_seen + i on.
struct KeyPair {
  const float *scores[2], *gradients[2];
  uint16_t *probabilities[2], *score_gradients[2];
  uint16_t* paired_gradients;  // score_gradients once more, interleaved
  int64_t first_seen, count;   // count: a multiple of 16
};
// probability = 2^(score * scale - logsumexp[j]); score_gradient = probability * (gradient - shift[j]).
void score_gradients(const KeyPair& keys, float scale, const float* logsumexp, const float* shift);

// The sum of x[i] * y[i].
float dot(const uint16_t* x, const uint16_t* y, int64_t count);
// x[i] *= factor, in whole vectors: count is a multiple of 16. sum[i] += x[i].
void scale_row(float* x, float factor, int64_t count);
void add_row(float* sum, const float* x, int64_t count);
// out[i] = x[i * stride] * factor, rounded.
void round_row(const float* x, int64_t stride, float factor, uint16_t* out, int64_t count);

}  // namespace fathom::cpu::amx

#endif
