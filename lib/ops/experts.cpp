// One autograd function for all experts of a layer: rows are gathered, multiplied and added up in it, and gathered
// again in its backward pass.
#include "ops/experts.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <memory>
#include <utility>

#include "ops/activation.h"
#include "ops/grouped_products.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One of the two stacks with its adapter, as it is multiplied.
struct Matrix {
  MatrixStack stack;
  std::optional<LoraAdapter> adapter;
  at::Tensor hidden_RR, grad_hidden_RR;  // x A^T, and in the backward pass its gradient
  at::ScalarType stored_dtype{};         // of the gradient of the stack
  bool needs_weight = false, needs_adapter = false;

  bool needs_input() const { return needs_weight || needs_adapter; }
  int64_t rank() const { return adapter->a_RD.size(0) / stack.count; }
  // [N * R, I]
  MatrixStack a() const { return {stack.count, rank(), stack.in, adapter->a_RD, std::nullopt, stack.dtype}; }
  // [N * O, R]: the columns of each expert together.
  MatrixStack b() const {
    const at::Tensor b_ORN = adapter->b_NR.view({stack.out, rank(), stack.count});
    at::Tensor b_NOR = at::empty({stack.count, stack.out, rank()}, b_ORN.options().dtype(stack.dtype));
    b_NOR.copy_(b_ORN.permute({2, 0, 1}));
    return {stack.count, stack.out, rank(), b_NOR.view({-1, rank()}), std::nullopt, stack.dtype};
  }

  void forward(const Routes& routes, const at::Tensor& x_RI, const std::vector<at::Tensor>& outs) {
    multiply(stack, routes, x_RI, outs);
    if (!adapter) return;
    hidden_RR = at::empty({x_RI.size(0), rank()}, x_RI.options());
    multiply(a(), routes, x_RI, {hidden_RR});
    multiply(b(), routes, hidden_RR, outs, adapter->scaling);
  }

  void begin_backward(const Routes& routes, const std::vector<at::Tensor>& gs) {
    if (!adapter) return;
    grad_hidden_RR = at::empty({gs[0].size(0), rank()}, gs[0].options());
    multiply_back(b(), routes, gs, grad_hidden_RR);
    if (adapter->scaling != 1) grad_hidden_RR.mul_(adapter->scaling);
  }
  // Of what it read.
  at::Tensor backward(const Routes& routes, const std::vector<at::Tensor>& gs) const {
    at::Tensor out_RI = at::empty({gs[0].size(0), stack.in}, gs[0].options());
    multiply_back(stack, routes, gs, out_RI);
    if (adapter) multiply_back(a(), routes, {grad_hidden_RR}, out_RI, /*adds=*/true);
    return out_RI;
  }

  struct Gradients {
    at::Tensor stored, a, b;
  };
  Gradients gradients(const Routes& routes, const std::vector<at::Tensor>& gs, const at::Tensor& x_RI) const {
    Gradients made;
    if (needs_weight) made.stored = gradient_of_stack(stack, routes, gs, x_RI, stored_dtype);
    if (!needs_adapter) return made;
    const at::ScalarType type = adapter->a_RD.scalar_type();
    const MatrixStack b_shape{stack.count, stack.out, rank()}, a_shape{stack.count, rank(), stack.in};
    made.b = gradient_of_stack(b_shape, routes, gs, hidden_RR, type)
                 .view({stack.count, stack.out, rank()})
                 .permute({1, 2, 0})
                 .reshape(adapter->b_NR.sizes());
    if (adapter->scaling != 1) made.b.mul_(adapter->scaling);
    made.a = gradient_of_stack(a_shape, routes, {grad_hidden_RR}, x_RI, type);
    return made;
  }
};

struct KeptForExperts : torch::CustomClassHolder {
  Routes routes;
  Matrix gate_up, down;
  at::Tensor gate_RF, up_RF;
  std::shared_ptr<KeptInput> input;  // null where only x needs a gradient
  bool needs_any = false, needs_x = false, needs_weights = false;
};

at::Tensor forward_pass(const at::Tensor& x_TD, KeptForExperts& kept) {
  const Routes& routes = kept.routes;
  const auto options = x_TD.options();
  const int64_t rows = routes.tokens_R.size(0);
  kept.gate_RF = at::empty({rows, kept.down.stack.in}, options);
  kept.up_RF = at::empty({rows, kept.down.stack.in}, options);
  kept.gate_up.forward(routes, x_TD.index_select(0, routes.tokens_R), {kept.gate_RF, kept.up_RF});
  at::Tensor inner_RF = gated(Activation::kSilu, kept.gate_RF, kept.up_RF);
  if (!kept.needs_any) {
    kept.gate_RF.reset();
    kept.up_RF.reset();
  }
  inner_RF.mul_(weights_of_rows(routes, inner_RF.scalar_type()));
  at::Tensor out_RD = at::empty({rows, x_TD.size(1)}, options);
  kept.down.forward(routes, inner_RF, {out_RD});
  inner_RF.reset();
  return sum_of_rows(out_RD, routes);
}

struct ExpertsFunction : torch::autograd::Function<ExpertsFunction> {
  // The tensors are named for autograd's sake, which gives back a gradient for each.
  using Optional = std::optional<at::Tensor>;
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_TD, const at::Tensor& /*weights_TK*/,
                            const Optional& /*gate_up*/, const Optional& /*down*/, const Optional& /*gate_up_a*/,
                            const Optional& /*gate_up_b*/, const Optional& /*down_a*/, const Optional& /*down_b*/,
                            const c10::intrusive_ptr<KeptForExperts>& kept) {
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    return forward_pass(x_TD, *kept);
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto kept =
        c10::static_intrusive_pointer_cast<KeptForExperts>(std::move(context->saved_data["kept"]).toCapsule());
    const Routes& routes = kept->routes;
    at::Tensor grad_x_TD, grad_weights_TK, grad_RF;
    Matrix::Gradients down, gate_up;
    {
      const at::Tensor grad_RD = upstream[0].index_select(0, routes.tokens_R);
      kept->down.begin_backward(routes, {grad_RD});
      grad_RF = kept->down.backward(routes, {grad_RD});
      at::Tensor inner_RF = gated(Activation::kSilu, kept->gate_RF, kept->up_RF);
      if (kept->needs_weights) grad_weights_TK = products_of_rows(inner_RF, grad_RF, routes);
      const at::Tensor weights_R1 = weights_of_rows(routes, inner_RF.scalar_type());
      grad_RF.mul_(weights_R1);
      if (kept->down.needs_input()) down = kept->down.gradients(routes, {grad_RD}, inner_RF.mul_(weights_R1));
    }
    std::vector<at::Tensor> gs;
    {
      GateGradients of_gate = gated_backward(Activation::kSilu, grad_RF, kept->gate_RF, kept->up_RF);
      gs = {std::move(of_gate.gate_TF), std::move(of_gate.up_TF)};
    }
    grad_RF.reset();
    kept->down = Matrix();
    kept->gate_RF.reset();
    kept->up_RF.reset();
    kept->gate_up.begin_backward(routes, gs);
    if (kept->gate_up.needs_input()) {
      gate_up =
          kept->gate_up.gradients(routes, gs, kept->input->as(gs[0].scalar_type()).index_select(0, routes.tokens_R));
    }
    kept->input.reset();
    if (kept->needs_x) grad_x_TD = sum_of_rows(kept->gate_up.backward(routes, gs), routes);
    return {grad_x_TD, grad_weights_TK, gate_up.stored, down.stored, gate_up.a, gate_up.b, down.a, down.b, {}};
  }
};

}  // namespace

at::Tensor experts(const LinearInput& input, const Routes& routes, const ExpertMatrices& matrices,
                   const ComputeScope& compute) {
  const auto needs = [on = at::GradMode::is_enabled()](const at::Tensor& x) {
    return on && x.defined() && x.requires_grad();
  };
  auto kept = c10::make_intrusive<KeptForExperts>();
  kept->routes = routes;
  kept->routes.weights_TK = routes.weights_TK.detach();
  kept->needs_x = needs(input.tensor());
  kept->needs_weights = needs(routes.weights_TK);
  kept->needs_any = kept->needs_x || kept->needs_weights;
  const auto matrix = [&](const ExpertStack& stack) {
    Matrix made;
    const int64_t rows = stack.quantized ? stack.quantized->rows : stack.stored.size(0);
    const int64_t columns = stack.quantized ? stack.quantized->columns : stack.stored.size(1);
    made.stack = {matrices.count,  rows / matrices.count, columns, stack.cast.defined() ? stack.cast : stack.stored,
                  stack.quantized, compute.dtype()};
    if (stack.stored.defined()) made.stored_dtype = stack.stored.scalar_type();
    made.adapter = stack.adapter;
    made.needs_weight = needs(stack.stored);
    made.needs_adapter = stack.adapter && (needs(stack.adapter->a_RD) || needs(stack.adapter->b_NR));
    kept->needs_any = kept->needs_any || made.needs_input();
    return made;
  };
  kept->gate_up = matrix(matrices.gate_up);
  kept->down = matrix(matrices.down);
  if (kept->gate_up.needs_input()) kept->input = input.kept();
  const auto a = [](const ExpertStack& stack) { return stack.adapter ? stack.adapter->a_RD : at::Tensor(); };
  const auto b = [](const ExpertStack& stack) { return stack.adapter ? stack.adapter->b_NR : at::Tensor(); };
  using Optional = ExpertsFunction::Optional;
  return ExpertsFunction::apply(input.tensor(), routes.weights_TK, Optional(matrices.gate_up.stored),
                                Optional(matrices.down.stored), Optional(a(matrices.gate_up)),
                                Optional(b(matrices.gate_up)), Optional(a(matrices.down)), Optional(b(matrices.down)),
                                kept);
}

}  // namespace fathom::ops
