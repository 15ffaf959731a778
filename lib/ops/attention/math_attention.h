// Attention by its formula, with the probabilities of all pairs kept for the backward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <vector>

namespace fathom::ops {

// By which scores are multiplied: 1 / sqrt(E).
inline double scale_of(const at::Tensor& x_E) { return 1 / std::sqrt(static_cast<double>(x_E.size(-1))); }

// softmax(q k^T / sqrt(E), causal within the window) v; window 0: all before. q_BHSE, k_BKSE and v_BKSE of any strides.
// sinks_H: as ops/attention/sinks.h has them, whose probabilities are kept with the others; undefined: none. Returns
// [B, H, S, E].
at::Tensor math_attention(const at::Tensor& q_BHSE, const at::Tensor& k_BKSE, const at::Tensor& v_BKSE, int64_t window,
                          const at::Tensor& sinks_H = {});

// The same for documents end to end: q_THE, k_TKE, v_TKE. What is kept grows with the squares of the lengths, what is
// taken besides with the longest. Returns [T, H, E].
at::Tensor document_math_attention(const at::Tensor& q_THE, const at::Tensor& k_TKE, const at::Tensor& v_TKE,
                                   const std::vector<int64_t>& document_lengths, int64_t window,
                                   const at::Tensor& sinks_H = {});

// The same with sinks for queries that see C keys, but for what mask_QC adds to their scores: q_BHQE, k_BKCE, v_BKCE;
// mask_QC undefined: nothing. Scores are FP32. No gradients. Returns [B, H, Q, E].
at::Tensor masked_math_attention(const at::Tensor& q_BHQE, const at::Tensor& k_BKCE, const at::Tensor& v_BKCE,
                                 const at::Tensor& mask_QC, const at::Tensor& sinks_H);

}  // namespace fathom::ops
