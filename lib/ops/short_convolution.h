// A short causal convolution between two gates, as LFM2 mixes tokens (Liquid AI 2025, arXiv 2511.23404).
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/documents.h"

namespace fathom::ops {

// Rows of parts_TD are B, C and x, end to end, each of a third of the width: C * conv(B * x), [T, D / 3], where each
// channel is convolved with its taps, the last one for the token itself, and sees no other text. length: of each text,
// unless there are documents. Keeps parts_TD and taps_DJ for the backward pass.
at::Tensor gated_convolution(const at::Tensor& parts_TD, const at::Tensor& taps_DJ, int64_t length,
                             const Documents* documents);

// The same for tokens behind others, of which last_BSD has B * x, of one token less than there are taps, and gets that
// of the last ones. first: there are none before, whatever last_BSD holds. No gradients.
at::Tensor convolved_after(const at::Tensor& parts_TD, const at::Tensor& taps_DJ, const at::Tensor& last_BSD,
                           bool first);

}  // namespace fathom::ops
