// A convolution of each channel along the texts of a batch, the sum over taps of what came before: by ATen's operators,
// or before SiLU by a kernel where there is one. Nothing here is known to autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include "cpu/short_convolution.h"

namespace fathom::ops {

// How texts lie in the rows, as cpu::Texts has them.
struct Texts {
  at::Tensor positions_T;  // undefined: all have `length` rows
  int64_t length = 0;
  cpu::Texts on_cpu() const {
    return {positions_T.defined() ? positions_T.const_data_ptr<int32_t>() : nullptr, length};
  }
};

// The sum over taps of rows before, or, backward, of those after.
at::Tensor convolved(const at::Tensor& made_TD, const at::Tensor& taps_DJ, const Texts& texts, bool backward = false);
// Of what `convolved` made: of_sum_TD is its gradient.
void gradient_of_taps(const at::Tensor& of_sum_TD, const at::Tensor& made_TD, const Texts& texts,
                      const at::Tensor& grad_taps_DJ);

// SiLU of the sum over taps.
at::Tensor silu_convolution(const at::Tensor& x_TD, const at::Tensor& taps_DJ, const Texts& texts);
// The gradient of x_TD, in the place of grad_TD where a kernel makes it. grad_taps_DJ: undefined where it is not
// wanted.
at::Tensor silu_convolution_backward(const at::Tensor& grad_TD, const at::Tensor& x_TD, const at::Tensor& taps_DJ,
                                     const Texts& texts, const at::Tensor& grad_taps_DJ);

}  // namespace fathom::ops
