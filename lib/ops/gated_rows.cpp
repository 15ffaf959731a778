// A kernel on CPUs, ATen's operators elsewhere.
#include "ops/gated_rows.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "cpu/gated_rows.h"
#include "ops/rows.h"
#include "ops/traffic.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct GatedRows : torch::autograd::Function<GatedRows> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_TD, const at::Tensor& gates_T1) {
    context->save_for_backward({x_TD, gates_T1});
    if (!has_kernel(x_TD) || !has_kernel(gates_T1)) return x_TD * at::sigmoid(gates_T1);
    at::Tensor out_TD = at::empty_like(x_TD);
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::gated_rows", traffic(x_TD, gates_T1, out_TD));
    if (x_TD.is_cpu()) {
      each_share(x_TD, [&](int64_t first, int64_t last, int64_t width) {
        cpu::gate_rows(rows(x_TD), rows(gates_T1), rows(out_TD), first, last, width);
      });
    }
    return out_TD;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x_TD = saved[0], &gates_T1 = saved[1], grad_TD = gradients[0].contiguous();
    if (!has_kernel(x_TD) || !has_kernel(gates_T1)) {
      const at::Tensor sigmoid_T1 = at::sigmoid(gates_T1);
      const at::Tensor sums_T1 = (grad_TD * x_TD).sum(at::OptionalIntArrayRef({-1}), true);
      return {grad_TD * sigmoid_T1, at::sigmoid_backward(sums_T1, sigmoid_T1)};
    }
    const at::Tensor grad_x_TD = at::empty_like(x_TD), grad_gates_T1 = at::empty_like(gates_T1);
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::gated_rows_backward", traffic(grad_TD, x_TD, gates_T1, grad_x_TD));
    if (x_TD.is_cpu()) {
      each_share(x_TD, [&](int64_t first, int64_t last, int64_t width) {
        cpu::gate_rows_backward(rows(grad_TD), rows(x_TD), rows(gates_T1), rows(grad_x_TD), rows(grad_gates_T1), first,
                                last, width);
      });
    }
    return {grad_x_TD, grad_gates_T1};
  }

 private:
  template <typename Work>
  static void each_share(const at::Tensor& x_TD, const Work& work) {
    const int64_t width = x_TD.size(1);
    at::parallel_for(0, x_TD.size(0), std::max<int64_t>(1, kElementsPerTask / width),
                     [&](int64_t first, int64_t last) { work(first, last, width); });
  }
};

}  // namespace

at::Tensor gated_rows(const at::Tensor& x_TD, const at::Tensor& gates_T1) { return GatedRows::apply(x_TD, gates_T1); }

}  // namespace fathom::ops
