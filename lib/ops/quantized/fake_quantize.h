// Quantization-aware training: numbers that are rounded to the codes they will be stored in and read back at once, with
// steps that are learned (LSQ: Esser et al. 2019, arXiv 1902.08153).
//
// w' = clamp(round(w / s), lowest, highest) s. The gradient goes straight through the rounding, and is 0 where the
// clamp holds. That of the step is LSQ's equation 3:  dw'/ds = round(w/s) - w/s within the codes, the outermost code
// beyond. The step is learned as its logarithm (Jain et al. 2019, arXiv 1903.08066): an optimizer that adapts its rate
// moves it by shares of itself then, however small it is, and it stays positive. Its gradient is s dw'/ds; LSQ's factor
// 1/sqrt(N Q), which balances steps and weights under SGD, would only bring it nearer to Adam's epsilon.
#pragma once

#include <ATen/core/Tensor.h>

#include "quant/layout.h"

namespace fathom::ops {

struct FakeQuantizer {
  quant::Scheme scheme = {};  // INT8 of rows, -127 to 127, or INT4 of groups, -8 to 7
  at::Tensor log_steps_NG;    // FP32; G = 1 where a row shares a step
};

// The weight as its codes read back, computed in FP32 and rounded once to `dtype`; no gradient.
at::Tensor fake_quantize(const at::Tensor& weight_ND, const FakeQuantizer& quantizer, at::ScalarType dtype);
// The same in the weight's place.
void fake_quantize_(const at::Tensor& weight_ND, const FakeQuantizer& quantizer);
// gradient_ND, of what fake_quantize gave, becomes that of the weight in place. Returns that of log_steps_NG.
at::Tensor fake_quantize_backward(const at::Tensor& gradient_ND, const at::Tensor& weight_ND,
                                  const FakeQuantizer& quantizer);

// Steps by which the largest magnitude takes the outermost code, as rounding without training has them: the first
// evaluation of a run is that of the rounded model. For INT4's groups they err less, too, than LSQ's 2 mean|w| /
// sqrt(Q).
void initialise_steps(const at::Tensor& weight_ND, const FakeQuantizer& quantizer);

// What is exported: codes [N, D] in INT8, of INT4 from -8 to 7, and steps_NG, by which they give what fake_quantize
// gives. Of a matrix on the CPU.
struct LearnedCodes {
  at::Tensor codes_ND, steps_NG;
};
LearnedCodes learned_codes(const at::Tensor& weight_ND, const FakeQuantizer& quantizer);

// Each row in INT8 with a step of its own, its largest magnitude / 127, and read back; the gradient goes straight
// through. Nothing is kept.
at::Tensor fake_quantize_tokens(const at::Tensor& x_TD);

}  // namespace fathom::ops
