// Attention whose scores no fused kernel makes: with a bias by the distance of key and query and padding that no query
// sees, as T5 has it; with capped scores, as Gemma 2 has them; with dropout of probabilities.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fathom::ops {

// s = q k^T * scale, capped (ops/softcap.h) unless softcap is 0, + bias.
struct Scores {
  // Of T queries and S keys, [H, T + S - 1] in FP32: entry j - i + T - 1 of query i and key j. Negative infinity hides
  // a pair. Undefined: nothing is added.
  at::Tensor by_distance_HN = {};
  at::Tensor hidden_BS = {};  // bool: keys that no query sees, such as padding; undefined: every key is seen
  double scale = 1;
  double softcap = 0;
};

// softmax(s) v; K divides H, and query head h reads key head h / (H / K). dropout: of probabilities. Keeps queries,
// keys, values and the bias; the scores of a few queries at a time are made, and made again in the backward pass, so
// that memory grows with T + S. A bias that needs a gradient has as many heads as keys have. Returns [B, T, H * E],
// contiguous.
at::Tensor biased_attention(const at::Tensor& q_BTHE, const at::Tensor& k_BSKE, const at::Tensor& v_BSKE,
                            const Scores& scores, double dropout);

// The bias of causal attention for the last `queries` of `keys` positions, of which a query sees the last `window`, its
// own included (0: all before it): [heads, queries + keys - 1], a view of one row.
at::Tensor causal_by_distance(int64_t heads, int64_t queries, int64_t keys, int64_t window, at::Device device);

}  // namespace fathom::ops
