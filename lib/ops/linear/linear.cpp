// Linear layers and their LoRA adapters as one autograd function, which keeps as few tensors as its gradients need.
#include "ops/linear/linear.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "ledger/ledger.h"
#include "ops/dropout.h"
#include "ops/linear/fake_quantized_linear.h"
#include "ops/linear/fp8_linear.h"
#include "ops/linear/int8_linear.h"
#include "ops/linear/matrix_product.h"
#include "ops/linear/shared_input.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kKept = "kept";

// What the backward pass needs.
struct Kept : torch::CustomClassHolder {
  at::Tensor weight_ND;  // as it was multiplied; where that was a copy that is not kept, as stored
  std::optional<QuantizedMatrix> quantized_ND;
  at::Tensor a_RD, b_NR, hidden_TR;
  double scaling = 1;
  Dropout dropout;
  std::shared_ptr<KeptInput> input;                // null where no weight and no A of its own needs a gradient
  std::shared_ptr<SharedInput> shared;             // null: the gradient of x is this layer's own
  std::optional<size_t> place;                     // of an A that is joined with others
  at::ScalarType stored_dtype{}, adapter_dtype{};  // of the gradients of weight and bias, of A and B
  bool fp8_products = false;
  bool needs_x = false, needs_weight = false, needs_bias = false, needs_adapter = false;
};

// Of the frozen base as it is multiplied, for one product.
at::Tensor weight_for_product(const Kept& kept, at::ScalarType dtype) {
  if (kept.quantized_ND) return dequantize(*kept.quantized_ND, dtype);
  const at::Tensor& weight_ND = kept.weight_ND;
  if (weight_ND.scalar_type() == dtype) return weight_ND;
  const ledger::ClaimScope copy_of_weight(memory::Component::kFunctionality);
  return weight_ND.to(dtype);
}

// sum + x y, in place; x y where there is no sum yet.
void add_product(at::Tensor& sum, const at::Tensor& x, const at::Tensor& y) {
  sum.defined() ? ops::addmm_(sum, x, y) : sum = ops::mm(x, y);
}

// hidden B^T added to the product of the base; in place where both have one type.
at::Tensor add_adapter(at::Tensor y_TN, const Kept& kept) {
  const at::ScalarType dtype = y_TN.scalar_type(), wide = kept.hidden_TR.scalar_type();
  if (dtype != wide) y_TN = y_TN.to(wide);
  ops::addmm_(y_TN, kept.hidden_TR, kept.b_NR.t());
  return dtype == wide ? y_TN : y_TN.to(dtype);
}

struct Gradients {
  at::Tensor x_TD, weight_ND, bias_N, a_RD, b_NR;
};

// Of x A^T; of a joined one what reaches it, which is scaled later.
at::Tensor gradient_of_hidden(const at::Tensor& grad_TN, const Kept& kept) {
  if (!kept.place) return scaled(ops::mm(grad_TN, kept.b_NR), kept.scaling);
  at::Tensor grad_hidden_TR = kept.shared->grad_hidden_to_write_TR(grad_TN, *kept.place);
  return ops::mm_out(grad_hidden_TR, grad_TN, kept.b_NR);
}

// Makes that of B; returns the gradient of x A^T.
at::Tensor gradient_of_b(const at::Tensor& grad_TN, Kept& kept, Gradients& gradients) {
  const at::Tensor wide_TN = grad_TN.to(kept.a_RD.scalar_type());
  gradients.b_NR = ops::mm(wide_TN.t(), kept.hidden_TR, kept.adapter_dtype);
  kept.hidden_TR.reset();
  return gradient_of_hidden(wide_TN, kept);
}

// What x is asked for: the gradients of the weight and of an A that is not joined. Lets go of x.
void make_by_input(const at::Tensor& grad_TN, const at::Tensor& grad_hidden_TR, Kept& kept, Gradients& gradients) {
  if (kept.needs_weight) {
    gradients.weight_ND = ops::mm(grad_TN.t(), kept.input->as(grad_TN.scalar_type()), kept.stored_dtype);
  }
  if (kept.needs_adapter && !kept.place) {
    const at::Tensor& x_TD = kept.input->as(kept.a_RD.scalar_type());
    gradients.a_RD = ops::mm(grad_hidden_TR.t(), kept.dropout.apply(x_TD), kept.adapter_dtype);
  }
  kept.input.reset();
}

// What reaches x through the adapter joins what reaches it through the base; that of a joined A joins later.
void add_through_adapter(at::Tensor& grad_x_TD, const at::Tensor& grad_hidden_TR, const Kept& kept) {
  if (kept.dropout.is_off() && grad_x_TD.scalar_type() == grad_hidden_TR.scalar_type()) {
    ops::addmm_(grad_x_TD, grad_hidden_TR, kept.a_RD);
    return;
  }
  const at::Tensor through_TD = kept.dropout.apply_to(ops::mm(grad_hidden_TR, kept.a_RD));
  grad_x_TD.add_(through_TD.to(grad_x_TD.scalar_type()));
}

at::Tensor multiply_codes(const LinearInput& input, const Linear& layer, const ComputeScope& compute) {
  at::Tensor y_TN = int8_product(input.int8_rows(), *layer.quantized_ND, compute.dtype());
  return layer.bias_N.defined() ? y_TN.add_(compute.weight(layer.bias_N)) : y_TN;
}

// A weight that is trained is quantized for each of its products, which takes less time than keeping it takes memory.
at::Tensor multiply_in_fp8(const LinearInput& input, const Linear& layer, const ComputeScope& compute, Kept& kept) {
  kept.fp8_products = true;
  const at::Tensor& weight_ND = layer.cast_ND.defined() ? layer.cast_ND : layer.weight_ND;
  if (kept.needs_x) {
    kept.weight_ND = weight_ND;
    kept.quantized_ND = layer.quantized_ND;
  }
  if (layer.weight_ND.defined()) kept.stored_dtype = layer.weight_ND.scalar_type();
  at::Tensor y_TN = fp8_product(
      input.fp8_rows(), layer.quantized_ND ? *layer.quantized_ND : quantize_weight_to_fp8(weight_ND), compute.dtype());
  return layer.bias_N.defined() ? y_TN.add_(compute.weight(layer.bias_N)) : y_TN;
}

// What reaches x through the base is added to the sum, or is the sum where there is none yet.
void add_through_base(at::Tensor& grad_x_TD, const at::Tensor& grad_TN, const Kept& kept) {
  if (!kept.fp8_products) return add_product(grad_x_TD, grad_TN, weight_for_product(kept, grad_TN.scalar_type()));
  const at::Tensor through_TD =
      fp8_gradient_of_input(grad_TN, kept.quantized_ND ? *kept.quantized_ND : quantize_weight_to_fp8(kept.weight_ND));
  grad_x_TD.defined() ? grad_x_TD.add_(through_TD) : grad_x_TD = through_TD;
}

// x W^T + bias.
at::Tensor multiply_base(const LinearInput& input, const Linear& layer, const ComputeScope& compute, Kept& kept) {
  if (layer.int8_activations) return multiply_codes(input, layer, compute);
  if (layer.fp8_products) return multiply_in_fp8(input, layer, compute, kept);
  const at::Tensor copy_ND = layer.quantized_ND ? dequantize(*layer.quantized_ND, compute.dtype())
                                                : compute.weight(layer.weight_ND, layer.cast_ND);
  const at::Tensor bias_N = layer.bias_N.defined() ? compute.weight(layer.bias_N) : at::Tensor();
  if (kept.needs_x) {
    const bool keeps_copy = layer.cast_ND.defined() || (kept.needs_weight && keeps_casts());
    kept.weight_ND = keeps_copy ? copy_ND : layer.weight_ND;
    kept.quantized_ND = layer.quantized_ND;
  }
  if (layer.weight_ND.defined()) kept.stored_dtype = layer.weight_ND.scalar_type();
  return multiply_by_weight(input.tensor(), copy_ND, bias_N);
}

// x A^T, scaled, left in `kept`.
void multiply_a(const LinearInput& input, const LoraAdapter& adapter, const ComputeScope& compute, bool training,
                Kept& kept) {
  kept.a_RD =
      kept.place ? kept.shared->joined()[*kept.place].a_cast_RD : compute.weight(adapter.a_RD, adapter.a_cast_RD);
  kept.b_NR = compute.weight(adapter.b_NR, adapter.b_cast_NR);
  kept.scaling = adapter.scaling;
  kept.adapter_dtype = adapter.a_RD.scalar_type();
  at::Tensor x_TD = input.as(kept.a_RD.scalar_type());
  if (training) x_TD = kept.dropout.draw(x_TD, adapter.dropout);
  kept.hidden_TR = kept.place ? kept.shared->hidden_TR(x_TD, *kept.place)
                              : scaled(multiply_by_weight(x_TD, kept.a_RD, {}), kept.scaling);
}

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  // The tensors are named for autograd's sake, which gives back a gradient for each.
  using Optional = std::optional<at::Tensor>;  // an undefined tensor is none to autograd
  static at::Tensor forward(AutogradContext* context, const at::Tensor& /*x_TD*/, const Optional& /*weight_ND*/,
                            const Optional& /*bias_N*/, const Optional& /*a_RD*/, const Optional& /*b_NR*/,
                            const std::function<at::Tensor()>& multiply, const c10::intrusive_ptr<Kept>& kept) {
    context->saved_data[kKept] = c10::IValue::make_capsule(kept);
    return multiply();
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto kept = c10::static_intrusive_pointer_cast<Kept>(std::move(context->saved_data[kKept]).toCapsule());
    const at::Tensor grad_TN = upstream[0].contiguous();
    Gradients gradients;
    at::Tensor& grad_x_TD = kept->shared ? kept->shared->gradient_TD() : gradients.x_TD;
    const bool meets = kept->needs_x && !kept->shared && kept->input && kept->input->meets_gradient();
    if (kept->needs_bias) gradients.bias_N = grad_TN.sum(0).to(kept->stored_dtype);
    at::Tensor grad_hidden_TR;
    if (kept->needs_adapter) grad_hidden_TR = gradient_of_b(grad_TN, *kept, gradients);
    if (!meets) make_by_input(grad_TN, grad_hidden_TR, *kept, gradients);
    if (kept->needs_x) {
      add_through_base(grad_x_TD, grad_TN, *kept);
      if (kept->needs_adapter && !kept->place) add_through_adapter(grad_x_TD, grad_hidden_TR, *kept);
    }
    if (meets) {
      kept->input->meet(grad_x_TD);
      make_by_input(grad_TN, grad_hidden_TR, *kept, gradients);
    }
    return {gradients.x_TD, gradients.weight_ND, gradients.bias_N, gradients.a_RD, gradients.b_NR, {}, {}, {}};
  }
};

}  // namespace

at::Tensor scaled(const at::Tensor& x, double scaling) { return scaling == 1 ? x : x.mul_(scaling); }

at::Tensor linear(const LinearInput& input, const Linear& layer, const ComputeScope& compute, bool training) {
  if (layer.quantizer) return fake_quantized_linear(input, layer, compute);
  const auto needs = [on = at::GradMode::is_enabled()](const at::Tensor& x) {
    return on && x.defined() && x.requires_grad();
  };
  const LoraAdapter adapter = layer.adapter.value_or(LoraAdapter());
  auto kept = c10::make_intrusive<Kept>();
  kept->shared = input.shared();
  kept->needs_x = kept->shared ? kept->shared->needs_gradient() : needs(input.tensor());
  if (kept->shared && layer.adapter) kept->place = kept->shared->place_of(adapter);
  TORCH_CHECK(!layer.int8_activations || !kept->needs_x, "products of INT8 activations have no gradient");
  kept->needs_weight = needs(layer.weight_ND);
  kept->needs_bias = needs(layer.bias_N);
  kept->needs_adapter = layer.adapter && (kept->needs_x || needs(adapter.a_RD) || needs(adapter.b_NR));
  if (kept->needs_weight || (kept->needs_adapter && !kept->place)) kept->input = input.kept();
  const auto multiply = [&] {
    at::Tensor y_TN = multiply_base(input, layer, compute, *kept);
    if (!layer.adapter) return y_TN;
    multiply_a(input, adapter, compute, training, *kept);
    return add_adapter(std::move(y_TN), *kept);
  };
  using Optional = LinearFunction::Optional;
  return LinearFunction::apply(input.tensor(), Optional(layer.weight_ND), Optional(layer.bias_N),
                               Optional(kept->place ? at::Tensor() : adapter.a_RD), Optional(adapter.b_NR), multiply,
                               kept);
}

}  // namespace fathom::ops
