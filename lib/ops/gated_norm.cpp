// A kernel on CPUs, ATen's operators elsewhere.
#include "ops/gated_norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "cpu/gated_norm.h"
#include "ops/partial_sums.h"
#include "ops/rows.h"
#include "ops/traffic.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool have_kernel(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& weight_D) {
  return has_kernel(x) && has_kernel(gate) && has_kernel(weight_D);
}

// In the type in which all is computed without a kernel.
struct Wide {
  Wide(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& weight, double eps)
      : type(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat), weight_D(weight.to(type)) {
    normed_TD = x.to(type).view({-1, weight.size(0)});
    factors_T1 = (normed_TD * normed_TD).mean(at::OptionalIntArrayRef({-1}), true).add_(eps).rsqrt_();
    normed_TD = normed_TD * factors_T1;
    gate_TD = gate.to(type).view(normed_TD.sizes());
  }
  at::ScalarType type;
  at::Tensor normed_TD, factors_T1, gate_TD, weight_D;
};

struct GatedNorm : torch::autograd::Function<GatedNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& gate,
                            const at::Tensor& weight_D, double eps) {
    context->save_for_backward({x, gate, weight_D});
    context->saved_data["eps"] = eps;
    if (!have_kernel(x, gate, weight_D)) {
      Wide wide(x, gate, weight_D, eps);
      return wide.normed_TD.mul_(wide.weight_D).mul_(at::silu(wide.gate_TD)).view(x.sizes()).to(x.scalar_type());
    }
    const int64_t width = weight_D.size(0), count = x.numel() / width;
    at::Tensor out = at::empty_like(x);
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::gated_norm", traffic(x, gate, weight_D, out));
    if (x.is_cpu()) {
      at::parallel_for(0, count, std::max<int64_t>(1, kElementsPerTask / width), [&](int64_t first, int64_t last) {
        cpu::gated_norm(rows(x), rows(gate), rows(weight_D), eps, rows(out), first, last, width);
      });
    }
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &gate = saved[1], &weight_D = saved[2], grad = gradients[0].contiguous();
    const double eps = context->saved_data["eps"].toDouble();
    const bool of_weight = context->needs_input_grad(2);
    if (!have_kernel(x, gate, weight_D)) return by_operators(grad, x, gate, weight_D, eps, of_weight);
    const at::Tensor grad_x = at::empty_like(x), grad_gate = at::empty_like(gate),
                     grad_weight_D = of_weight ? at::empty_like(weight_D) : at::Tensor();
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::gated_norm_backward", traffic(grad, x, gate, weight_D, grad_x, grad_gate));
    if (x.is_cpu()) {
      const int64_t width = weight_D.size(0), count = x.numel() / width;
      const int64_t shares = std::min<int64_t>(at::get_num_threads(), count);
      PartialSums sums(of_weight, shares, width);
      at::parallel_for(0, shares, 1, [&](int64_t first, int64_t last) {
        for (int64_t share = first; share < last; ++share) {
          cpu::gated_norm_backward(rows(grad), rows(x), rows(gate), rows(weight_D), eps, rows(grad_x), rows(grad_gate),
                                   sums.share(share), count * share / shares, count * (share + 1) / shares, width);
        }
      });
      sums.add_up_into(grad_weight_D);
    }
    return {grad_x, grad_gate, grad_weight_D, {}};
  }

 private:
  static variable_list by_operators(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& gate,
                                    const at::Tensor& weight_D, double eps, bool of_weight) {
    const Wide wide(x, gate, weight_D, eps);
    const at::Tensor grad_TD = grad.to(wide.type).view(wide.normed_TD.sizes());
    const at::Tensor of_silu_TD = grad_TD * wide.normed_TD,
                     grad_gate = at::silu_backward(of_silu_TD * wide.weight_D, wide.gate_TD);
    const at::Tensor silu_TD = at::silu(wide.gate_TD);
    at::Tensor grad_weight_D;
    if (of_weight) grad_weight_D = (of_silu_TD * silu_TD).sum(0).to(weight_D.scalar_type());
    const at::Tensor of_normed_TD = (grad_TD * wide.weight_D).mul_(silu_TD);
    const at::Tensor mean_T1 = (of_normed_TD * wide.normed_TD).mean(at::OptionalIntArrayRef({-1}), true);
    const at::Tensor grad_x = (of_normed_TD - wide.normed_TD * mean_T1).mul_(wide.factors_T1);
    return {grad_x.view(x.sizes()).to(x.scalar_type()),
            grad_gate.view(gate.sizes()).to(gate.scalar_type()),
            grad_weight_D,
            {}};
  }
};

}  // namespace

at::Tensor gated_norm(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& weight_D, double eps) {
  return GatedNorm::apply(x, gate, weight_D, eps);
}

}  // namespace fathom::ops
