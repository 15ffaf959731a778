// The gated delta rule behind its convolution, as Qwen3.5 mixes tokens (Yang et al. 2024, arXiv 2412.06464).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "arch/architecture.h"
#include "ops/documents.h"

namespace fathom::ops {

struct DeltaWeights {
  at::Tensor taps_DJ;            // of queries, keys and values
  at::Tensor rates_H, biases_H;  // FP32; Role::kDecayRate and kDecayBias
};

// mixed_TD: queries, keys and values, one beside the other, as their projection made them; strengths and decays: of
// each value head, likewise. The convolution's sums pass SiLU. What each value head's state answers, [T, H *
// value_dim], in the type of mixed_TD; computed in FP32. No text sees another; length: of each text, unless there are
// documents. Keeps what it reads for the backward pass.
at::Tensor gated_delta(const arch::GatedDelta& delta, const at::Tensor& mixed_TD, const at::Tensor& strengths_TH,
                       const at::Tensor& decays_TH, const DeltaWeights& weights, int64_t length,
                       const Documents* documents);

// The same for tokens behind others, whose arch::kept_while_generating `kept` are, and become that of the last ones.
// first: there are none before, whatever is kept. No gradients.
at::Tensor gated_delta_after(const arch::GatedDelta& delta, const at::Tensor& mixed_TD, const at::Tensor& strengths_TH,
                             const at::Tensor& decays_TH, const DeltaWeights& weights,
                             const std::vector<at::Tensor>& kept, bool first);

}  // namespace fathom::ops
