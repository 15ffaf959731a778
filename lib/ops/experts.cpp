// One autograd function for all experts of a layer: rows are gathered, multiplied and added up in it, and gathered
// again in its backward pass.
#include "ops/experts.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <memory>
#include <utility>

#include "ops/activation.h"
#include "ops/clamped_gate.h"
#include "ops/grouped_products.h"
#include "ops/linear/matrix_product.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One of the two stacks with its adapter and biases, as it is multiplied.
struct Matrix {
  MatrixStack stack;
  std::optional<LoraAdapter> adapter;
  at::Tensor stored_biases;              // undefined: none
  bool weighs_biases = false;            // by the weight of the row that gets them
  at::Tensor hidden_RR, grad_hidden_RR;  // x A^T, and in the backward pass its gradient
  at::ScalarType stored_dtype{};         // of the gradient of the stack
  bool needs_weight = false, needs_adapter = false, needs_biases = false;

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

  // In the type of products.
  at::Tensor biases_NO() const { return stored_biases.view({stack.count, stack.out}).to(stack.dtype); }

  void forward(const Routes& routes, const at::Tensor& x_RI, const std::vector<at::Tensor>& outs) {
    multiply(stack, routes, x_RI, outs);
    if (adapter) {
      hidden_RR = at::empty({x_RI.size(0), rank()}, x_RI.options());
      multiply(a(), routes, x_RI, {hidden_RR});
      multiply(b(), routes, hidden_RR, outs, adapter->scaling);
    }
    if (stored_biases.defined()) add_biases(routes, outs);
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
    at::Tensor stored, a, b, biases;
  };
  at::Tensor gradient_of_biases(const Routes& routes, const std::vector<at::Tensor>& gs) const {
    const at::Tensor choices_NR = choices_of_rows(routes, stack.dtype, weighs_biases).t();
    at::Tensor gradient_NO = at::empty({stack.count, stack.out}, stored_biases.options());
    const int64_t width = stack.out / std::ssize(gs);
    for (int64_t part = 0; part < std::ssize(gs); ++part) {
      gradient_NO.narrow(1, part * width, width).copy_(ops::mm(choices_NR, gs[static_cast<size_t>(part)]));
    }
    return gradient_NO.view({-1});
  }
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

 private:
  void add_biases(const Routes& routes, const std::vector<at::Tensor>& outs) const {
    const at::Tensor choices_RN = choices_of_rows(routes, stack.dtype, weighs_biases), all_NO = biases_NO();
    const int64_t width = stack.out / std::ssize(outs);
    for (int64_t part = 0; part < std::ssize(outs); ++part) {
      at::Tensor out = outs[static_cast<size_t>(part)];
      ops::addmm_(out, choices_RN, all_NO.narrow(1, part * width, width));
    }
  }
};

struct KeptForExperts : torch::CustomClassHolder {
  Routes routes;
  Matrix gate_up, down;
  std::optional<ClampedGate> clamped;
  std::vector<at::Tensor> gates;     // gate and up of each row; where they are clamped, one matrix
  std::shared_ptr<KeptInput> input;  // null where only x needs a gradient
  bool needs_any = false, needs_x = false, needs_weights = false;

  void make_gates(int64_t rows, const at::TensorOptions& options) {
    const int64_t inner = down.stack.in, parts = clamped ? 1 : 2;
    for (int64_t part = 0; part < parts; ++part) gates.push_back(at::empty({rows, 2 / parts * inner}, options));
  }
  at::Tensor product() const {
    return clamped ? clamped_gate(*clamped, gates[0]) : gated(Activation::kSilu, gates[0], gates[1]);
  }
  std::vector<at::Tensor> gradients_of_gates(const at::Tensor& grad_RF) const {
    if (clamped) return {clamped_gate_backward(*clamped, grad_RF, gates[0])};
    GateGradients made = gated_backward(Activation::kSilu, grad_RF, gates[0], gates[1]);
    return {std::move(made.gate_TF), std::move(made.up_TF)};
  }
};

at::Tensor forward_pass(const at::Tensor& x_TD, KeptForExperts& kept) {
  const Routes& routes = kept.routes;
  const auto options = x_TD.options();
  const int64_t rows = routes.tokens_R.size(0);
  kept.make_gates(rows, options);
  kept.gate_up.forward(routes, x_TD.index_select(0, routes.tokens_R), kept.gates);
  at::Tensor inner_RF = kept.product();
  if (!kept.needs_any) kept.gates.clear();
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
                            const Optional& /*gate_up_biases*/, const Optional& /*down_biases*/,
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
      at::Tensor inner_RF = kept->product();
      if (kept->needs_weights) {
        grad_weights_TK = products_of_rows(inner_RF, grad_RF, routes);
        if (kept->down.stored_biases.defined()) {
          grad_weights_TK.add_(products_with_biases(grad_RD, kept->down.biases_NO(), routes));
        }
      }
      const at::Tensor weights_R1 = weights_of_rows(routes, inner_RF.scalar_type());
      grad_RF.mul_(weights_R1);
      if (kept->down.needs_input()) down = kept->down.gradients(routes, {grad_RD}, inner_RF.mul_(weights_R1));
      if (kept->down.needs_biases) down.biases = kept->down.gradient_of_biases(routes, {grad_RD});
    }
    const std::vector<at::Tensor> gs = kept->gradients_of_gates(grad_RF);
    grad_RF.reset();
    kept->down = Matrix();
    kept->gates.clear();
    kept->gate_up.begin_backward(routes, gs);
    if (kept->gate_up.needs_input()) {
      gate_up =
          kept->gate_up.gradients(routes, gs, kept->input->as(gs[0].scalar_type()).index_select(0, routes.tokens_R));
    }
    if (kept->gate_up.needs_biases) gate_up.biases = kept->gate_up.gradient_of_biases(routes, gs);
    kept->input.reset();
    if (kept->needs_x) grad_x_TD = sum_of_rows(kept->gate_up.backward(routes, gs), routes);
    return {grad_x_TD, grad_weights_TK, gate_up.stored, down.stored, gate_up.a, gate_up.b,
            down.a,    down.b,          gate_up.biases, down.biases, {}};
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
    if (stack.biases.defined()) made.stored_biases = stack.biases.detach();
    made.needs_weight = needs(stack.stored);
    made.needs_adapter = stack.adapter && (needs(stack.adapter->a_RD) || needs(stack.adapter->b_NR));
    made.needs_biases = needs(stack.biases);
    kept->needs_any = kept->needs_any || made.needs_input() || made.needs_biases;
    return made;
  };
  kept->gate_up = matrix(matrices.gate_up);
  kept->down = matrix(matrices.down);
  kept->down.weighs_biases = true;
  kept->clamped = matrices.clamped;
  if (kept->gate_up.needs_input()) kept->input = input.kept();
  const auto a = [](const ExpertStack& stack) { return stack.adapter ? stack.adapter->a_RD : at::Tensor(); };
  const auto b = [](const ExpertStack& stack) { return stack.adapter ? stack.adapter->b_NR : at::Tensor(); };
  using Optional = ExpertsFunction::Optional;
  return ExpertsFunction::apply(input.tensor(), routes.weights_TK, Optional(matrices.gate_up.stored),
                                Optional(matrices.down.stored), Optional(a(matrices.gate_up)),
                                Optional(b(matrices.gate_up)), Optional(a(matrices.down)), Optional(b(matrices.down)),
                                Optional(matrices.gate_up.biases), Optional(matrices.down.biases), kept);
}

}  // namespace fathom::ops
