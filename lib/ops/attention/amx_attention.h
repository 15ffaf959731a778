// Causal attention in BF16 on CPUs with AMX: flash attention on blocks that are large enough for its tiles.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace fathom::ops {

// Whether amx_attention takes tensors of this type on this device: BF16 on the CPU or the phantom device, where
// LibTorch finds AMX (ONEDNN_MAX_CPU_ISA may keep it from that).
bool has_amx_attention(at::Device device, at::ScalarType type);

// softmax(q k^T / sqrt(E), causal within the document) v. q_THE; k_TKE and v_TKE with K a divisor of H. sinks_H: as
// ops/attention/sinks.h has them; undefined: none. Scores, softmax and all sums are FP32; keeps output and logsumexp
// for the backward pass. The bits depend on the number of threads, not on their timing. Returns [T, H, E], contiguous.
at::Tensor amx_attention(const at::Tensor& q_THE, const at::Tensor& k_TKE, const at::Tensor& v_TKE,
                         const std::vector<int64_t>& document_lengths, const at::Tensor& sinks_H = {});

}  // namespace fathom::ops
