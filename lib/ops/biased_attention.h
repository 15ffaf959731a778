// Attention whose scores carry a bias by the distance of key and query, and padding that no query sees: T5's.
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::ops {

struct ScoreBias {
  // Added to the scores of T queries and S keys, [H, T + S - 1] in FP32: entry j - i + T - 1 of query i and key j.
  // Negative infinity hides a pair. Undefined: nothing is added.
  at::Tensor by_distance_HN;
  at::Tensor hidden_BS;  // bool: keys that no query sees, such as padding; undefined: every key is seen
};

// softmax(q k^T + bias) v, unscaled; as many key heads as query heads. dropout: of probabilities. Keeps queries, keys,
// values and the bias; the scores of a few queries at a time are made, and made again in the backward pass, so that
// memory grows with T + S. Returns [B, T, H * E], contiguous.
at::Tensor biased_attention(const at::Tensor& q_BTHE, const at::Tensor& k_BSHE, const at::Tensor& v_BSHE,
                            const ScoreBias& bias, double dropout);

}  // namespace fathom::ops
