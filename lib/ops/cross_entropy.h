// Cross-entropy over the vocabulary (transformers' ForCausalLMLoss), summed and divided by a given number.
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::ops {

inline constexpr int64_t kIgnoredTarget = -100;

// logits_BSV: any floating type; targets_BS: int64 on the same device, already shifted. Returns the FP32 scalar
//   sum over targets that are not kIgnoredTarget of (logsumexp(logits) - logits[target]) / denominator,
// computed in FP32 whatever the type of the logits. Consumes the logits: when they need a gradient, it is computed at
// once and on the CPU takes their place, so that the backward pass holds one tensor of this size and not three.
at::Tensor cross_entropy(const at::Tensor& logits_BSV, const at::Tensor& targets_BS, double denominator);

}  // namespace fathom::ops
