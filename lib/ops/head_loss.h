// The language model's head and its loss in one operator, which holds the logits of a chunk of tokens at a time.
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::ops {

// Which rows of the hidden states have a target, and which; found on the host, so that no shape waits for a device.
struct LossTargets {
  at::Tensor rows_N;     // int64, each row once; undefined: every row
  at::Tensor targets_N;  // int64, already shifted; kIgnoredTarget where a row does not count after all
  double denominator = 1;
  int64_t chunk_rows = 0;     // of logits at a time, at most (footprint/loss_chunk.h); 0: all of them
  double gradient_scale = 1;  // gradients are those of a loss so many times as large; the loss itself is not scaled
  bool unscaled = false;      // promised: nobody multiplies the loss before its backward pass
  int64_t spare_bytes = 0;    // what a chunk of logits may take on a GPU at least; model::Decoder sets its own
  double softcap = 0;         // of logits (ops/softcap.h); model::Decoder sets its own
};

// These rows of x, all different; an rvalue is let go of.
at::Tensor gather_rows(const at::Tensor& x_TD, const at::Tensor& rows_N);

// x_TD: hidden states after the last norm, in the type of matrix products; head_VD: as stored; head_copy_VD: the same
// in the type of x (head_VD itself where they agree). Returns the FP32 scalar
//   sum over the rows that count of (logsumexp(y) - y[target]) / denominator,  0 where no row counts,
// of the logits y = head x, capped.
// The gradients of x and, where it needs one, of the head are made chunk by chunk in the forward pass, where the logits
// are at hand, and the backward pass only hands them over: what lifts them above FP16's smallest numbers must be known
// here. The head's adds up in FP32 and takes the stored type at the end. Consumes x: without rows_N, its gradient takes
// its place. An rvalue is let go of as soon as its rows are gathered.
at::Tensor head_loss(at::Tensor x_TD, const at::Tensor& head_VD, const at::Tensor& head_copy_VD,
                     const LossTargets& targets);

}  // namespace fathom::ops
