// Elements to leave out, drawn once: one kernel for each pass on CUDA, passes in place elsewhere.
#include "ops/dropout.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <tuple>

namespace fathom::ops {

at::Tensor Dropout::draw(const at::Tensor& x, double p) {
  if (p == 0) return x;
  if (x.is_cuda()) {
    scale_ = 1 / (1 - p);
    at::Tensor kept;
    std::tie(kept, mask_) = at::native_dropout(x, p, /*train=*/true);
    return kept;
  }
  draw_for(x, p);
  return apply(x);
}

void Dropout::draw_for(const at::Tensor& x, double p) {
  if (p == 0) return;
  scale_ = 1 / (1 - p);
  mask_ = at::empty(x.sizes(), x.options().dtype(at::kBool)).bernoulli_(p);
}

at::Tensor Dropout::apply(const at::Tensor& x) const {
  if (is_off()) return x;
  return apply_to(x.is_cuda() ? x : x.clone());
}

at::Tensor Dropout::apply_to(at::Tensor x) const {
  if (is_off()) return x;
  if (x.is_cuda()) return at::native_dropout_backward(x, mask_, scale_);
  return x.masked_fill_(mask_, 0).mul_(scale_);
}

namespace {

struct DropoutFunction : torch::autograd::Function<DropoutFunction> {
  struct Kept : torch::CustomClassHolder {
    Dropout dropout;
  };
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, double p) {
    const auto kept = c10::make_intrusive<Kept>();
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    return kept->dropout.draw(x, p);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto kept = c10::static_intrusive_pointer_cast<Kept>(context->saved_data["kept"].toCapsule());
    return {kept->dropout.apply(gradients[0]), at::Tensor()};
  }
};

}  // namespace

at::Tensor dropout(const at::Tensor& x, double p) { return p == 0 ? x : DropoutFunction::apply(x, p); }

}  // namespace fathom::ops
