// The gated delta rule by ATen's operators, in FP32 or, where that is read, in double precision: on a GPU, all chunks
// of all heads at once but for what goes from one chunk to the next.
#pragma once

#include "ops/delta/delta_inputs.h"

namespace fathom::ops {

// As delta_of_heads. Documents and states exclude each other.
at::Tensor delta_by_operators(const arch::GatedDelta& delta, const DeltaInputs& inputs, const DeltaTexts& texts,
                              const at::Tensor& states);
// Of one token of each text.
at::Tensor delta_step_by_operators(const arch::GatedDelta& delta, const DeltaInputs& inputs, const at::Tensor& states);
// Of all inputs, whichever are wanted.
DeltaGradients delta_by_operators_backward(const arch::GatedDelta& delta, const DeltaInputs& inputs,
                                           const DeltaTexts& texts, const at::Tensor& grad_TD);

}  // namespace fathom::ops
