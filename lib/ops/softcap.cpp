// In place, but for the tanh that a gradient needs.
#include "ops/softcap.h"

#include <ATen/ATen.h>

namespace fathom::ops {

Softcap::Softcap(double cap, const at::Tensor& like_CV, bool gradients) : cap_(cap) {
  if (cap > 0 && gradients) buffer_CV_ = at::empty_like(like_CV);
}

void Softcap::apply(at::Tensor& logits_CV) {
  if (cap_ == 0) return;
  logits_CV.div_(cap_).tanh_();
  if (buffer_CV_.defined()) {
    tanh_CV_ = buffer_CV_.narrow(0, 0, logits_CV.size(0));
    tanh_CV_.copy_(logits_CV);
  }
  logits_CV.mul_(cap_);
}

void Softcap::back(at::Tensor& gradient_CV) const {
  if (tanh_CV_.defined()) at::tanh_backward_out(gradient_CV, gradient_CV, tanh_CV_);
}

at::Tensor softcapped(const at::Tensor& logits_TV, double cap) {
  return cap == 0 ? logits_TV : logits_TV.div(cap).tanh().mul(cap);
}

}  // namespace fathom::ops
