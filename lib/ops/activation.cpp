// Activations by LibTorch's operators, computed again in the backward pass.
#include "ops/activation.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/swiglu.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::kSilu:
      return at::silu(x);
    case Activation::kGelu:
      return at::gelu(x, "tanh");
    case Activation::kRelu:
      return at::relu(x);
  }
  return x;
}

at::Tensor activate_backward(Activation activation, const at::Tensor& grad, const at::Tensor& x) {
  switch (activation) {
    case Activation::kSilu:
      return at::silu_backward(grad, x);
    case Activation::kGelu:
      return at::gelu_backward(grad, x, "tanh");
    case Activation::kRelu:
      return at::threshold_backward(grad, x, 0);
  }
  return grad;
}

struct Gated : torch::autograd::Function<Gated> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_TF, const at::Tensor& up_TF,
                            int64_t activation) {
    context->save_for_backward({gate_TF, up_TF});
    context->saved_data["activation"] = activation;
    return activate(static_cast<Activation>(activation), gate_TF).mul_(up_TF);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto activation = static_cast<Activation>(context->saved_data["activation"].toInt());
    at::Tensor grad_up_TF = activate(activation, saved[0]).mul_(gradients[0]);
    return {activate_backward(activation, gradients[0] * saved[1], saved[0]), grad_up_TF, at::Tensor()};
  }
};

struct Activated : torch::autograd::Function<Activated> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_TF, int64_t activation) {
    context->save_for_backward({x_TF});
    context->saved_data["activation"] = activation;
    return activate(static_cast<Activation>(activation), x_TF);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto activation = static_cast<Activation>(context->saved_data["activation"].toInt());
    return {activate_backward(activation, gradients[0], context->get_saved_variables()[0]), at::Tensor()};
  }
};

}  // namespace

at::Tensor gated(Activation activation, const at::Tensor& gate_TF, const at::Tensor& up_TF) {
  if (activation == Activation::kSilu) return swiglu(gate_TF, up_TF);
  return Gated::apply(gate_TF, up_TF, static_cast<int64_t>(activation));
}

at::Tensor activated(Activation activation, const at::Tensor& x_TF) {
  return Activated::apply(x_TF, static_cast<int64_t>(activation));
}

}  // namespace fathom::ops
