// Softmax over the scores of attention that no fused kernel makes, and its gradient: each row is read once, and what
// becomes of it takes its place.
#pragma once

#include <cstdint>

#include "cpu/kernels.h"

namespace fathom::cpu {

// Rows ((b * key_heads + k) * queries + t) * repeats + r of `keys` products of a query and the keys: query t of head
// k * repeats + r of b. Its scores are products * scale, capped at softcap (0: not at all), + bias; probabilities are
// softmax(scores), of which some are left out.
struct ScoreRows {
  int64_t key_heads = 1, queries = 0, repeats = 1, keys = 0;
  float scale = 1, softcap = 0;
  const float* bias = nullptr;     // that of head h and query t begins at h * bias_stride + t; null: none
  int64_t bias_stride = 0;         // numbers from a head to the next
  const bool* hidden = nullptr;    // [b, keys] that no query sees; null: every key is seen
  const bool* left_out = nullptr;  // [rows, keys], by dropout; null: none
  float kept_scale = 1;            // of probabilities that are not left out
};

// Of rows [first, last): products become probabilities, zero where left out. A row without a key that is seen is NaN.
void attention_probabilities(Rows products, const ScoreRows& rows, int64_t first, int64_t last);

// The same; `gradient`, of what they become, turns into that of the products. grad_bias: null, or what the gradients of
// the scores of b and k are added to, [b, key_heads, grad_bias_stride], of query t from entry t; repeats is 1 then.
void attention_probabilities_backward(Rows products, Rows gradient, const ScoreRows& rows, float* grad_bias,
                                      int64_t grad_bias_stride, int64_t first, int64_t last);

}  // namespace fathom::cpu
