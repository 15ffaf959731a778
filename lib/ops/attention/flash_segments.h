// Attention over documents and under a sliding window on the CPU, whose flash kernel knows neither.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace fathom::ops {

// softmax(q k^T / sqrt(E), causal within the window and the document) v, segment by segment into one output. q_THE;
// k_TKE and v_TKE with K a divisor of H. window 0: all before. sinks_H: as ops/attention/sinks.h has them; undefined:
// none. Keeps output and logsumexp of all tokens; what it takes besides is as large as the largest segment. Returns
// [T, H, E].
at::Tensor flash_segments(const at::Tensor& q_THE, const at::Tensor& k_TKE, const at::Tensor& v_TKE,
                          const std::vector<int64_t>& document_lengths, int64_t window, const at::Tensor& sinks_H = {});

}  // namespace fathom::ops
