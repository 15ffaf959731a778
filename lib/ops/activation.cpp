// A gate by one kernel that makes its activation again in the backward pass, on CUDA that of silu alone; what there is
// no kernel for by LibTorch's operators.
#include "ops/activation.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>

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
    case Activation::kSquaredRelu: {
      at::Tensor made = at::relu(x);
      return made.mul_(made);
    }
    case Activation::kSigmoid:
      return at::sigmoid(x);
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
    case Activation::kSquaredRelu:
      return at::relu(x).mul_(grad).mul_(2);
    case Activation::kSigmoid:
      return at::sigmoid_backward(grad, at::sigmoid(x));
  }
  return grad;
}

const CudaKernels* cuda_kernels_of(Activation activation, const at::Tensor& x) {
  return activation == Activation::kSilu ? cuda_kernels_for(x) : nullptr;
}

// Where the gradients of gate and up wait that were made with the output.
struct Met : torch::CustomClassHolder {
  std::optional<GateGradients> gradients;
};

struct Gated : torch::autograd::Function<Gated> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_TF, const at::Tensor& up_TF,
                            int64_t number, const c10::intrusive_ptr<Met>& met) {
    const auto activation = static_cast<Activation>(number);
    context->save_for_backward({gate_TF, up_TF});
    context->saved_data["activation"] = number;
    context->saved_data["met"] = c10::IValue::make_capsule(met);
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
    const auto met = c10::static_intrusive_pointer_cast<Met>(context->saved_data["met"].toCapsule());
    std::optional<GateGradients> made = std::exchange(met->gradients, std::nullopt);
    if (!made) {
      const auto saved = context->get_saved_variables();
      const auto activation = static_cast<Activation>(context->saved_data["activation"].toInt());
      made = gated_backward(activation, gradients[0].contiguous(), saved[0], saved[1]);
    }
    return {std::move(made->gate_TF), std::move(made->up_TF), at::Tensor(), at::Tensor()};
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
  return Gated::apply(gate_TF, up_TF, static_cast<int64_t>(activation), c10::make_intrusive<Met>());
}

LinearInput gated_input(Activation activation, const at::Tensor& gate_TF, const at::Tensor& up_TF) {
  const auto met = c10::make_intrusive<Met>();
  at::Tensor out_TF = Gated::apply(gate_TF, up_TF, static_cast<int64_t>(activation), met);
  const at::Tensor gate = gate_TF.detach(), up = up_TF.detach();
  const auto again = [activation, gate, up] { return gated(activation, gate, up); };
  if (cuda_kernels_of(activation, gate_TF) == nullptr) return {std::move(out_TF), again};
  return {std::move(out_TF), again, [activation, gate, up, met](const at::Tensor& grad_TF) {
            met->gradients = gated_backward(activation, grad_TF, gate, up, grad_TF);
            return grad_TF;
          }};
}

GateGradients gated_backward(Activation activation, const at::Tensor& grad_TF, const at::Tensor& gate_TF,
                             const at::Tensor& up_TF, const at::Tensor& out_TF) {
  const CudaKernels* cuda = cuda_kernels_of(activation, gate_TF);
  if (!has_kernel(gate_TF) && cuda == nullptr) {
    at::Tensor grad_up_TF = activate(activation, gate_TF).mul_(grad_TF);
    return {activate_backward(activation, grad_TF * up_TF, gate_TF), grad_up_TF};
  }
  at::Tensor grad_gate_TF = at::empty_like(gate_TF), grad_up_TF = at::empty_like(up_TF);
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::gated_backward",
                                out_TF.defined() ? traffic(grad_TF, gate_TF, up_TF, grad_gate_TF, grad_up_TF, out_TF)
                                                 : traffic(grad_TF, gate_TF, up_TF, grad_gate_TF, grad_up_TF));
  if (cuda != nullptr) {
    const cpu::Rows out = out_TF.defined() ? rows(out_TF) : cpu::Rows();
    check_launch("swiglu_backward",
                 cuda->swiglu_backward(rows(grad_TF), rows(gate_TF), rows(up_TF), rows(grad_gate_TF), rows(grad_up_TF),
                                       out, gate_TF.numel(), current_stream(gate_TF)));
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
