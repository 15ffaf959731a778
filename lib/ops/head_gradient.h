// The gradient of the head's weights, added up over chunks of tokens.
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::ops {

class HeadGradient {
 public:
  // head_VD: for its shape, type and device. computed: the type of the products that are added. in_one: there will be
  // at most one. Sums of several 16-bit products are FP32, since a running sum in 16 bits would lose what is added to
  // it.
  HeadGradient(const at::Tensor& head_VD, at::ScalarType computed, bool in_one);

  // Adds gradient_CV^T x_CD.
  void add(const at::Tensor& gradient_CV, const at::Tensor& x_CD);
  // The sum in the head's type; zeros where nothing was added. Ends the sum.
  at::Tensor take();

 private:
  at::ScalarType stored_;
  at::Tensor sum_VD_;
  bool empty_ = true;
};

}  // namespace fathom::ops
