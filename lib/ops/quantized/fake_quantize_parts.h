// Fake quantization with ATen's operators, for GPUs: what fake_quantize.h promises, in parts that bound the memory of
// intermediate results.
#pragma once

#include "cpu/fake_quantize_kernels.h"
#include "ops/quantized/fake_quantize.h"

namespace fathom::ops {

// out_ND may be weight_ND.
void fake_quantize_in_parts(const at::Tensor& weight_ND, const at::Tensor& log_steps_NG, const cpu::StepGrid& grid,
                            const at::Tensor& out_ND);
void fake_quantize_backward_in_parts(const at::Tensor& gradient_ND, const at::Tensor& weight_ND,
                                     const at::Tensor& log_steps_NG, const cpu::StepGrid& grid,
                                     const at::Tensor& log_step_gradients_NG);
at::Tensor fake_quantize_tokens_by_operators(const at::Tensor& x_TD);

}  // namespace fathom::ops
