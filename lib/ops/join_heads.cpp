// Copies; the gradient of what is one head's is the sum over all.
#include "ops/join_heads.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "ops/given.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct JoinHeads : torch::autograd::Function<JoinHeads> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_in_TN,
                            const std::optional<at::Tensor>& one_TB, int64_t heads, int64_t numbers) {
    const int64_t tokens = x_in_TN.size(0), first = x_in_TN.size(1) / heads;
    context->saved_data["heads"] = heads;
    context->saved_data["first"] = first;
    context->saved_data["shares"] = one_TB.has_value();
    at::Tensor made_TN = at::empty({tokens, heads * numbers}, x_in_TN.options());
    const at::Tensor made_THE = made_TN.view({tokens, heads, numbers});
    made_THE.narrow(2, 0, first).copy_(x_in_TN.contiguous().view({tokens, heads, first}));
    const at::Tensor behind_THB = made_THE.narrow(2, first, numbers - first);
    if (one_TB) {
      behind_THB.copy_(one_TB->unsqueeze(1).expand(behind_THB.sizes()));
    } else {
      behind_THB.zero_();
    }
    return made_TN;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const int64_t heads = context->saved_data["heads"].toInt(), first = context->saved_data["first"].toInt();
    const at::Tensor grad_THE = gradients.front().unflatten(1, {heads, -1});
    variable_list made(4);
    if (context->needs_input_grad(0)) made[0] = grad_THE.narrow(2, 0, first).flatten(1);
    if (context->saved_data["shares"].toBool() && context->needs_input_grad(1)) {
      made[1] = grad_THE.narrow(2, first, grad_THE.size(2) - first).sum(at::OptionalIntArrayRef({1}));
    }
    return made;
  }
};

}  // namespace

at::Tensor join_heads(const at::Tensor& x_TN, const at::Tensor& one_TB, int64_t heads, int64_t numbers) {
  return JoinHeads::apply(x_TN, given(one_TB), heads, numbers);
}

}  // namespace fathom::ops
