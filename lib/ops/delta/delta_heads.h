// The gated delta rule on a CPU: each thread takes the value heads of one key head, and goes through a text in chunks.
#pragma once

#include "ops/delta/delta_inputs.h"

namespace fathom::ops {

// Whether all that is read is in a type that the kernels take; on the phantom device likewise, which computes nothing.
bool has_delta_kernel(const DeltaInputs& inputs);

// What queries read, [T, H * value_dim]. states: FP32, [texts, H, key_dim, value_dim], those before the first tokens,
// which become those behind the last ones; undefined: states begin at zero and are forgotten.
at::Tensor delta_of_heads(const arch::GatedDelta& delta, const DeltaInputs& inputs, const DeltaTexts& texts,
                          const at::Tensor& states);

// inputs.mixed_TD becomes its gradient, and is that of `made`, whose other tensors are filled.
void delta_of_heads_backward(const arch::GatedDelta& delta, const DeltaInputs& inputs, const DeltaTexts& texts,
                             const at::Tensor& grad_TD, const DeltaGradients& made);

}  // namespace fathom::ops
