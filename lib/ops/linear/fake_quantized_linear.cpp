// One autograd function that gives gradients to weight, bias, adapter and steps.
#include "ops/linear/fake_quantized_linear.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "ops/linear/matrix_product.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kKeptCodes = "kept";

// What the backward pass needs.
struct KeptCodes : torch::CustomClassHolder {
  Linear layer;                      // as it is stored
  std::shared_ptr<KeptInput> input;  // null where only x needs a gradient
  bool needs_x = false, needs_weight = false, needs_bias = false, needs_adapter = false, needs_steps = false;
};

struct FakeQuantizedGradients {
  at::Tensor x_TD, weight_ND, bias_N, a_RD, b_NR, log_steps_NG;
};

// What is rounded: the weight where it lies, or merged, a tensor of its own.
at::Tensor weight_of(const Linear& layer) {
  return layer.adapter ? merged_weight(layer.weight_ND, *layer.adapter) : layer.weight_ND;
}

// Rounded; a merged weight is used up.
at::Tensor for_product(const at::Tensor& weight_ND, const Linear& layer, at::ScalarType dtype) {
  if (!layer.adapter || dtype != weight_ND.scalar_type()) return fake_quantize(weight_ND, *layer.quantizer, dtype);
  fake_quantize_(weight_ND, *layer.quantizer);
  return weight_ND;
}

// Of A and B, from that of the merged weight.
void adapter_gradients(const at::Tensor& grad_ND, const LoraAdapter& adapter, FakeQuantizedGradients& gradients) {
  gradients.b_NR = ops::mm(grad_ND, adapter.a_RD.t()).mul_(adapter.scaling);
  gradients.a_RD = ops::mm(adapter.b_NR.t(), grad_ND).mul_(adapter.scaling);
}

// Of whatever lies in the weight.
void weight_gradients(const at::Tensor& grad_TN, const at::Tensor& weight_ND, const KeptCodes& kept,
                      FakeQuantizedGradients& gradients) {
  const at::Tensor grad_ND = ops::mm(grad_TN.t(), kept.input->as(grad_TN.scalar_type()), weight_ND.scalar_type());
  gradients.log_steps_NG = fake_quantize_backward(grad_ND, weight_ND, *kept.layer.quantizer);
  if (kept.needs_adapter) adapter_gradients(grad_ND, *kept.layer.adapter, gradients);
  if (kept.needs_weight) gradients.weight_ND = grad_ND;
}

struct FakeQuantizedLinear : torch::autograd::Function<FakeQuantizedLinear> {
  // The tensors are named for autograd's sake, which gives back a gradient for each.
  using Optional = std::optional<at::Tensor>;  // an undefined tensor is none to autograd
  static at::Tensor forward(AutogradContext* context, const at::Tensor& /*x_TD*/, const at::Tensor& /*weight_ND*/,
                            const Optional& /*bias_N*/, const Optional& /*a_RD*/, const Optional& /*b_NR*/,
                            const at::Tensor& /*log_steps_NG*/, const std::function<at::Tensor()>& multiply,
                            const c10::intrusive_ptr<KeptCodes>& kept) {
    context->saved_data[kKeptCodes] = c10::IValue::make_capsule(kept);
    return multiply();
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto kept =
        c10::static_intrusive_pointer_cast<KeptCodes>(std::move(context->saved_data[kKeptCodes]).toCapsule());
    const at::Tensor grad_TN = upstream[0].contiguous();
    FakeQuantizedGradients gradients;
    if (kept->needs_bias) gradients.bias_N = grad_TN.sum(0).to(kept->layer.bias_N.scalar_type());
    at::Tensor weight_ND = weight_of(kept->layer);
    if (kept->input) weight_gradients(grad_TN, weight_ND, *kept, gradients);
    kept->input.reset();
    if (kept->needs_x) {
      weight_ND = for_product(weight_ND, kept->layer, grad_TN.scalar_type());
      gradients.x_TD = ops::mm(grad_TN, weight_ND);
    }
    return {gradients.x_TD,
            gradients.weight_ND,
            gradients.bias_N,
            gradients.a_RD,
            gradients.b_NR,
            gradients.log_steps_NG,
            {},
            {}};
  }
};

}  // namespace

at::Tensor merged_weight(const at::Tensor& weight_ND, const LoraAdapter& adapter) {
  at::Tensor merged_ND = weight_ND.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  return ops::addmm_(merged_ND, adapter.b_NR, adapter.a_RD, adapter.scaling);
}

at::Tensor fake_quantized_linear(const LinearInput& input, const Linear& layer, const ComputeScope& compute) {
  const auto needs = [on = at::GradMode::is_enabled()](const at::Tensor& x) {
    return on && x.defined() && x.requires_grad();
  };
  const LoraAdapter adapter = layer.adapter.value_or(LoraAdapter());
  auto kept = c10::make_intrusive<KeptCodes>();
  kept->layer = layer;
  kept->needs_x = needs(input.tensor());
  kept->needs_weight = needs(layer.weight_ND);
  kept->needs_bias = needs(layer.bias_N);
  kept->needs_adapter = needs(adapter.a_RD) || needs(adapter.b_NR);
  kept->needs_steps = needs(layer.quantizer->log_steps_NG);
  if (kept->needs_weight || kept->needs_adapter || kept->needs_steps) kept->input = input.kept();
  const auto multiply = [&] {
    const at::Tensor weight_ND = for_product(weight_of(layer), layer, compute.dtype());
    const at::Tensor bias_N = layer.bias_N.defined() ? compute.weight(layer.bias_N) : at::Tensor();
    return multiply_by_weight(input.tensor(), weight_ND, bias_N);
  };
  using Optional = FakeQuantizedLinear::Optional;
  return FakeQuantizedLinear::apply(input.tensor(), layer.weight_ND, Optional(layer.bias_N), Optional(adapter.a_RD),
                                    Optional(adapter.b_NR), layer.quantizer->log_steps_NG, multiply, kept);
}

}  // namespace fathom::ops
