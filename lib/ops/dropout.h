// Dropout (Srivastava et al. 2014) that keeps one byte for each element.
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::ops {

// What one call of dropout left out, so that the backward pass leaves out the same.
class Dropout {
 public:
  // x with each element kept with probability 1 - p and scaled by 1 / (1 - p); p = 0: x itself. Draws anew.
  at::Tensor draw(const at::Tensor& x, double p);
  // Draws as draw() does, for a kernel that leaves the elements out itself. Not on CUDA.
  void draw_for(const at::Tensor& x, double p);
  // The same elements of x, a new tensor; x itself where none was left out.
  at::Tensor apply(const at::Tensor& x) const;
  // The same; x is consumed.
  at::Tensor apply_to(at::Tensor x) const;
  bool is_off() const { return !mask_.defined(); }
  const at::Tensor& left_out() const { return mask_; }  // bool; undefined where nothing is. Not on CUDA
  double kept_scale() const { return scale_; }

 private:
  double scale_ = 1;
  at::Tensor mask_;  // bool; on CUDA the elements that stay, as LibTorch's kernels take it, elsewhere those that do not
};

// One Dropout's draw in the forward pass, applied to the gradient in the backward pass; p = 0: x itself.
at::Tensor dropout(const at::Tensor& x, double p);

}  // namespace fathom::ops
