// Logits that are kept within bounds, cap * tanh(logits / cap), as Gemma 2 has them.
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::ops {

// Of chunks of logits, one after the other. A cap of 0 leaves all as it is and takes nothing.
class Softcap {
 public:
  // like_CV: the largest chunk. gradients: the tanh of a chunk is kept for its gradient.
  Softcap(double cap, const at::Tensor& like_CV, bool gradients);
  void apply(at::Tensor& logits_CV);
  // Turns the gradient of the last chunk's capped logits into that of the logits.
  void back(at::Tensor& gradient_CV) const;

 private:
  double cap_;
  at::Tensor buffer_CV_, tanh_CV_;
};

// A new tensor, part of autograd.
at::Tensor softcapped(const at::Tensor& logits_TV, double cap);

}  // namespace fathom::ops
