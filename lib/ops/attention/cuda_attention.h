// Attention on CUDA by kernels that know documents and sliding windows, and all of the memory-efficient kernel's.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/attention/attention.h"

namespace fathom::ops {

// softmax(q k^T / sqrt(E), causal within the window and the document) v. q_BSHE; k_BSKE and v_BSKE with K a divisor of
// H. documents: null, or of the one row. window 0: all before. kernel: kFlash for 16-bit types, kMemoryEfficient.
// sinks_H: as ops/attention/sinks.h has them; undefined: none. Returns [B, S, H, E].
at::Tensor cuda_attention(const at::Tensor& q_BSHE, const at::Tensor& k_BSKE, const at::Tensor& v_BSKE,
                          footprint::AttentionKernel kernel, const Documents* documents, int64_t window,
                          const at::Tensor& sinks_H = {});

// CUDA's fused kernels read heads in whole vectors: 16-bit types in 8s, FP32 in 4s.
int64_t padded_head_size(int64_t head_size, at::ScalarType dtype);

}  // namespace fathom::ops
