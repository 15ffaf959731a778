// Log-probabilities of targets, row by row, without full logits: what a loss over sequences is made of.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fathom::ops {

// x_ND: hidden states after the last norm, in the type of matrix products; head_VD: as stored; head_copy_VD: the same
// in the type of x (head_VD itself where they agree); targets_N: int64, already shifted. Returns in FP32, for each row,
//   y[target] - logsumexp(y) of the logits y = head x, capped,  0 where the target is kIgnoredTarget.
// At most chunk_rows of logits are there at a time (footprint/loss_chunk.h; 0: all of them). The gradient of each row
// is known only when the loss that is made of the results goes backwards, so the backward pass makes the logits again,
// chunk by chunk; it keeps x and the head alone. ops/head_loss.h needs no second product, but its loss is fixed.
at::Tensor token_logprobs(const at::Tensor& x_ND, const at::Tensor& head_VD, const at::Tensor& head_copy_VD,
                          const at::Tensor& targets_N, int64_t chunk_rows, double softcap = 0);

// Of `sequences` of equal length in one row: what the positions rows_N of all of them (undefined: each) add up to in
// each, [sequences].
at::Tensor sequence_sums(const at::Tensor& values_N, const at::Tensor& rows_N, int64_t sequences, int64_t length);

}  // namespace fathom::ops
