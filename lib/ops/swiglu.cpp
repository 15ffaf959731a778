// SwiGLU's gate with a backward pass that recomputes silu instead of keeping it.
#include "ops/swiglu.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/cuda_kernels.h"
#include "ops/rows.h"
#include "ops/traffic.h"

namespace fathom::ops {
namespace {

constexpr int64_t kElementsPerTask = 16384;

struct SwiGlu : torch::autograd::Function<SwiGlu> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& gate_TF,
                            const at::Tensor& up_TF) {
    context->save_for_backward({gate_TF, up_TF});
    const CudaKernels* cuda = cuda_kernels_for(gate_TF);
    if (!has_kernel(gate_TF) && cuda == nullptr) return at::silu(gate_TF).mul_(up_TF);
    at::Tensor out_TF = at::empty_like(gate_TF);
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::swiglu", traffic(gate_TF, up_TF, out_TF));
    if (cuda != nullptr) {
      check_launch("swiglu",
                   cuda->swiglu(rows(gate_TF), rows(up_TF), rows(out_TF), gate_TF.numel(), current_stream(gate_TF)));
    } else if (gate_TF.is_cpu()) {
      at::parallel_for(0, gate_TF.numel(), kElementsPerTask, [&](int64_t first, int64_t last) {
        cpu::swiglu(rows(gate_TF), rows(up_TF), rows(out_TF), first, last);
      });
    }
    return out_TF;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    SwigluGradients made = swiglu_backward(gradients[0].contiguous(), saved[0], saved[1]);
    return {std::move(made.gate_TF), std::move(made.up_TF)};
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate_TF, const at::Tensor& up_TF) { return SwiGlu::apply(gate_TF, up_TF); }

SwigluGradients swiglu_backward(const at::Tensor& grad_TF, const at::Tensor& gate_TF, const at::Tensor& up_TF) {
  const CudaKernels* cuda = cuda_kernels_for(gate_TF);
  if (!has_kernel(gate_TF) && cuda == nullptr) {
    at::Tensor grad_up_TF = at::silu(gate_TF).mul_(grad_TF);
    return {at::silu_backward(grad_TF * up_TF, gate_TF), grad_up_TF};
  }
  at::Tensor grad_gate_TF = at::empty_like(gate_TF), grad_up_TF = at::empty_like(up_TF);
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::swiglu_backward", traffic(grad_TF, gate_TF, up_TF, grad_gate_TF, grad_up_TF));
  if (cuda != nullptr) {
    check_launch("swiglu_backward", cuda->swiglu_backward(rows(grad_TF), rows(gate_TF), rows(up_TF), rows(grad_gate_TF),
                                                          rows(grad_up_TF), gate_TF.numel(), current_stream(gate_TF)));
  } else if (gate_TF.is_cpu()) {
    at::parallel_for(0, gate_TF.numel(), kElementsPerTask, [&](int64_t first, int64_t last) {
      cpu::swiglu_backward(rows(grad_TF), rows(gate_TF), rows(up_TF), rows(grad_gate_TF), rows(grad_up_TF), first,
                           last);
    });
  }
  return {grad_gate_TF, grad_up_TF};
}

}  // namespace fathom::ops
