// A gate by one kernel that makes its activation again in the backward pass, on CUDA that of silu alone; what there is
// no kernel for by LibTorch's operators.
#include "ops/activation.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/cuda_kernels.h"
#include "ops/rows.h"
#include "ops/traffic.h"

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

const CudaKernels* cuda_kernels_of(Activation activation, const at::Tensor& x) {
  return activation == Activation::kSilu ? cuda_kernels_for(x) : nullptr;
}

struct Gated : torch::autograd::Function<Gated> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_TF, const at::Tensor& up_TF,
                            int64_t number) {
    const auto activation = static_cast<Activation>(number);
    context->save_for_backward({gate_TF, up_TF});
    context->saved_data["activation"] = number;
    const CudaKernels* cuda = cuda_kernels_of(activation, gate_TF);
    if (!has_kernel(gate_TF) && cuda == nullptr) return activate(activation, gate_TF).mul_(up_TF);
    at::Tensor out_TF = at::empty_like(gate_TF);
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::gated", traffic(gate_TF, up_TF, out_TF));
    if (cuda != nullptr) {
      check_launch("swiglu",
                   cuda->swiglu(rows(gate_TF), rows(up_TF), rows(out_TF), gate_TF.numel(), current_stream(gate_TF)));
    } else if (gate_TF.is_cpu()) {
      at::parallel_for(0, gate_TF.numel(), kElementsPerTask, [&](int64_t first, int64_t last) {
        cpu::gate(activation, rows(gate_TF), rows(up_TF), rows(out_TF), first, last);
      });
    }
    return out_TF;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto activation = static_cast<Activation>(context->saved_data["activation"].toInt());
    GateGradients made = gated_backward(activation, gradients[0].contiguous(), saved[0], saved[1]);
    return {std::move(made.gate_TF), std::move(made.up_TF), at::Tensor()};
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
  return Gated::apply(gate_TF, up_TF, static_cast<int64_t>(activation));
}

GateGradients gated_backward(Activation activation, const at::Tensor& grad_TF, const at::Tensor& gate_TF,
                             const at::Tensor& up_TF) {
  const CudaKernels* cuda = cuda_kernels_of(activation, gate_TF);
  if (!has_kernel(gate_TF) && cuda == nullptr) {
    at::Tensor grad_up_TF = activate(activation, gate_TF).mul_(grad_TF);
    return {activate_backward(activation, grad_TF * up_TF, gate_TF), grad_up_TF};
  }
  at::Tensor grad_gate_TF = at::empty_like(gate_TF), grad_up_TF = at::empty_like(up_TF);
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::gated_backward", traffic(grad_TF, gate_TF, up_TF, grad_gate_TF, grad_up_TF));
  if (cuda != nullptr) {
    check_launch("swiglu_backward", cuda->swiglu_backward(rows(grad_TF), rows(gate_TF), rows(up_TF), rows(grad_gate_TF),
                                                          rows(grad_up_TF), gate_TF.numel(), current_stream(gate_TF)));
  } else if (gate_TF.is_cpu()) {
    at::parallel_for(0, gate_TF.numel(), kElementsPerTask, [&](int64_t first, int64_t last) {
      cpu::gate_backward(activation, rows(grad_TF), rows(gate_TF), rows(up_TF), rows(grad_gate_TF), rows(grad_up_TF),
                         first, last);
    });
  }
  return {grad_gate_TF, grad_up_TF};
}

at::Tensor activated(Activation activation, const at::Tensor& x_TF) {
  return Activated::apply(x_TF, static_cast<int64_t>(activation));
}

}  // namespace fathom::ops
