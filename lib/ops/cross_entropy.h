// Cross-entropy over the vocabulary (transformers' ForCausalLMLoss) of a chunk of logits, which become their gradient.
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::ops {

inline constexpr int64_t kIgnoredTarget = -100;

// logits_CV: any floating type; targets_C: int64 on the same device, already shifted; loss: an FP32 scalar there. Adds
//   sum over targets that are not kIgnoredTarget of (logsumexp(logits) - logits[target]) / denominator
// to the loss, computed in FP32 whatever the type of the logits. Consumes the logits: with a gradient_scale other than
// 0 they become the gradient of what was added, times that. No part of autograd.
void add_cross_entropy(at::Tensor& loss, at::Tensor& logits_CV, const at::Tensor& targets_C, double denominator,
                       double gradient_scale);

// The losses row by row, logsumexp(logits) - logits[target], in FP32; 0 where the target is kIgnoredTarget. Consumes
// the logits likewise: with gradients_C, FP32 [C], they become the gradient of the sum of gradients_C * losses.
at::Tensor row_cross_entropy(at::Tensor& logits_CV, const at::Tensor& targets_C, const at::Tensor& gradients_C = {});

}  // namespace fathom::ops
