// Linear layers and their LoRA adapters as one autograd function, which keeps as few tensors as its gradients need.
#include "ops/linear.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "ledger/ledger.h"
#include "ops/dropout.h"
#include "ops/fake_quantized_linear.h"
#include "ops/int8_linear.h"
#include "ops/quantized_part_size.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kKept = "kept";

// What the backward pass needs.
struct Kept : torch::CustomClassHolder {
  at::Tensor weight_ND;  // as it was multiplied; where that was a copy of a frozen weight, as stored
  std::optional<QuantizedMatrix> quantized_ND;
  at::Tensor a_RD, b_NR, hidden_TR;
  double scaling = 1;
  Dropout dropout;
  std::shared_ptr<KeptInput> input;                // null where only x needs a gradient
  at::ScalarType stored_dtype{}, adapter_dtype{};  // of the gradients of weight and bias, of A and B
  bool needs_x = false, needs_weight = false, needs_bias = false, needs_adapter = false;
};

// Of the frozen base as it is multiplied, for one product.
at::Tensor weight_for_product(const Kept& kept, at::ScalarType dtype) {
  if (kept.quantized_ND) return dequantize(*kept.quantized_ND, dtype);
  const at::Tensor& weight_ND = kept.weight_ND;
  if (weight_ND.scalar_type() == dtype) return weight_ND;
  const ledger::ClaimScope copy_of_weight(ledger::Component::kFunctionality);
  return weight_ND.to(dtype);
}

at::Tensor scaled(const at::Tensor& x, double scaling) { return scaling == 1 ? x : x.mul_(scaling); }

// hidden B^T, scaled, added to the product of the base; in place where both have one type.
at::Tensor add_adapter(at::Tensor y_TN, const Kept& kept) {
  const at::ScalarType dtype = y_TN.scalar_type(), wide = kept.hidden_TR.scalar_type();
  if (dtype != wide) y_TN = y_TN.to(wide);
  y_TN.addmm_(kept.hidden_TR, kept.b_NR.t(), 1, kept.scaling);
  return dtype == wide ? y_TN : y_TN.to(dtype);
}

struct Gradients {
  at::Tensor x_TD, weight_ND, bias_N, a_RD, b_NR;
};

// Of A and B; returns the gradient of x A^T.
at::Tensor adapter_gradients(const at::Tensor& grad_TN, Kept& kept, Gradients& gradients) {
  const at::ScalarType dtype = kept.a_RD.scalar_type();
  at::Tensor grad_hidden_TR;
  {
    const at::Tensor wide_TN = grad_TN.to(dtype);
    gradients.b_NR = scaled(at::mm(wide_TN.t(), kept.hidden_TR), kept.scaling).to(kept.adapter_dtype);
    kept.hidden_TR.reset();
    grad_hidden_TR = scaled(at::mm(wide_TN, kept.b_NR), kept.scaling);
  }
  gradients.a_RD = at::mm(grad_hidden_TR.t(), kept.dropout.apply(kept.input->as(dtype))).to(kept.adapter_dtype);
  return grad_hidden_TR;
}

// What reaches x through the adapter joins what reaches it through the base.
void add_through_adapter(at::Tensor& grad_x_TD, const at::Tensor& grad_hidden_TR, const Kept& kept) {
  if (kept.dropout.is_off() && grad_x_TD.scalar_type() == grad_hidden_TR.scalar_type()) {
    grad_x_TD.addmm_(grad_hidden_TR, kept.a_RD);
    return;
  }
  const at::Tensor through_TD = kept.dropout.apply_to(at::mm(grad_hidden_TR, kept.a_RD));
  grad_x_TD.add_(through_TD.to(grad_x_TD.scalar_type()));
}

at::Tensor multiply_codes(const LinearInput& input, const Linear& layer, const ComputeScope& compute) {
  at::Tensor y_TN = int8_product(input.int8_rows(), *layer.quantized_ND, compute.dtype());
  return layer.bias_N.defined() ? y_TN.add_(compute.weight(layer.bias_N)) : y_TN;
}

// x W^T + bias.
at::Tensor multiply_base(const LinearInput& input, const Linear& layer, const ComputeScope& compute, Kept& kept) {
  if (layer.int8_activations) return multiply_codes(input, layer, compute);
  const at::Tensor copy_ND =
      layer.quantized_ND ? dequantize(*layer.quantized_ND, compute.dtype()) : compute.weight(layer.weight_ND);
  std::optional<at::Tensor> bias_N;
  if (layer.bias_N.defined()) bias_N = compute.weight(layer.bias_N);
  if (kept.needs_x) {
    kept.weight_ND = kept.needs_weight ? copy_ND : layer.weight_ND;
    kept.quantized_ND = layer.quantized_ND;
  }
  if (layer.weight_ND.defined()) kept.stored_dtype = layer.weight_ND.scalar_type();
  return at::linear(input.tensor(), copy_ND, bias_N);
}

// x A^T, left in `kept`.
void multiply_a(const LinearInput& input, const LoraAdapter& adapter, const ComputeScope& compute, bool training,
                Kept& kept) {
  kept.a_RD = compute.weight(adapter.a_RD);
  kept.b_NR = compute.weight(adapter.b_NR);
  kept.scaling = adapter.scaling;
  kept.adapter_dtype = adapter.a_RD.scalar_type();
  at::Tensor x_TD = input.as(kept.a_RD.scalar_type());
  if (training) x_TD = kept.dropout.draw(x_TD, adapter.dropout);
  kept.hidden_TR = at::linear(x_TD, kept.a_RD);
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
    if (kept->needs_weight) {
      gradients.weight_ND = at::mm(grad_TN.t(), kept->input->as(grad_TN.scalar_type())).to(kept->stored_dtype);
    }
    if (kept->needs_bias) gradients.bias_N = grad_TN.sum(0).to(kept->stored_dtype);
    at::Tensor grad_hidden_TR;
    if (kept->needs_adapter) grad_hidden_TR = adapter_gradients(grad_TN, *kept, gradients);
    kept->input.reset();
    if (kept->needs_x) {
      gradients.x_TD = at::mm(grad_TN, weight_for_product(*kept, grad_TN.scalar_type()));
      if (kept->needs_adapter) add_through_adapter(gradients.x_TD, grad_hidden_TR, *kept);
    }
    return {gradients.x_TD, gradients.weight_ND, gradients.bias_N, gradients.a_RD, gradients.b_NR, {}, {}, {}};
  }
};

}  // namespace

at::Tensor linear(const LinearInput& input, const Linear& layer, const ComputeScope& compute, bool training) {
  if (layer.quantizer) return fake_quantized_linear(input, layer, compute);
  const auto needs = [on = at::GradMode::is_enabled()](const at::Tensor& x) {
    return on && x.defined() && x.requires_grad();
  };
  const LoraAdapter adapter = layer.adapter.value_or(LoraAdapter());
  auto kept = c10::make_intrusive<Kept>();
  kept->needs_x = needs(input.tensor());
  TORCH_CHECK(!layer.int8_activations || !kept->needs_x, "products of INT8 activations have no gradient");
  kept->needs_weight = needs(layer.weight_ND);
  kept->needs_bias = needs(layer.bias_N);
  kept->needs_adapter = layer.adapter && (kept->needs_x || needs(adapter.a_RD) || needs(adapter.b_NR));
  if (kept->needs_weight || kept->needs_adapter) kept->input = input.kept();
  const auto multiply = [&] {
    at::Tensor y_TN = multiply_base(input, layer, compute, *kept);
    if (!layer.adapter) return y_TN;
    multiply_a(input, adapter, compute, training, *kept);
    return add_adapter(std::move(y_TN), *kept);
  };
  using Optional = LinearFunction::Optional;
  return LinearFunction::apply(input.tensor(), Optional(layer.weight_ND), Optional(layer.bias_N),
                               Optional(adapter.a_RD), Optional(adapter.b_NR), multiply, kept);
}

namespace {

constexpr const char* kLora = "LoRA: y = W x + b (a x) (Hu et al. 2021, arXiv 2106.09685)";
constexpr const char* kDequantized = "a quantized matrix for one product (Dettmers et al. 2023, arXiv 2305.14314)";
constexpr const char* kProduct = "a product with weights";
constexpr auto kCopy = ledger::Component::kFunctionality;

Bytes input_of(const StepSizes& step, const LinearSizes& sizes) {
  return {"input of a linear layer", kProduct, step.wide(sizes.in, step.compute_bytes)};
}

// What a product needs of a weight that is not there as it is: a copy in the type of products, and on a GPU tables
// through which 4-bit codes are looked up a part at a time.
Moment made_for_product(const StepSizes& step, const LinearSizes& sizes) {
  const Product copy = {{sizes.out, ""}, {sizes.in, ""}, {step.compute_bytes, "bytes"}};
  if (!sizes.codes)
    return step.casts() ? Moment{{"autocast's copy of a weight", kAutocastSource, copy, kCopy}} : Moment{};
  Moment made = {{"dequantized weight", kDequantized, copy}};
  if (step.cuda && !quant::has_row_scales(*sizes.codes)) {
    const int64_t numbers = std::min(kDequantizedPart, sizes.in * sizes.out);
    made.push_back(
        {"codes as indices, and what they stand for", kDequantized, {{numbers / 2, "pairs"}, {4 + 8, "bytes"}}});
  }
  return made;
}

// Products of a token's input with so many weights, and of the weights' gradients.
int64_t product_flops(const StepSizes& step, int64_t weights, int64_t times) {
  return value_of({{2, ""}, {step.tokens, ""}, {weights, ""}, {times, ""}});
}

// What products do, and the copies of a weight that are made for them.
void add_work(const StepSizes& step, const LinearSizes& sizes, Footprint& footprint) {
  const int64_t weights = value_of({{sizes.in, ""}, {sizes.out, ""}}), back = sizes.input_needs_gradient ? 1 : 0;
  footprint.forward_work.flops = product_flops(step, weights, 1);
  footprint.backward_work.flops = product_flops(step, weights, (sizes.trained ? 1 : 0) + back);
  const int64_t copied = bytes_of(made_for_product(step, sizes));
  const int64_t read =
      sizes.codes ? quant::layout_of(*sizes.codes, sizes.out, sizes.in).bytes() : weights * step.stored_bytes;
  const int64_t copy = copied == 0 ? 0 : weights * step.compute_bytes + read;
  footprint.forward_work.bytes = copy;
  footprint.backward_work.bytes =
      sizes.trained || back == 1 ? copy : 0;  // a trained weight's gradient, or the copy again
  if (sizes.keeps_input() && sizes.makes_input_again)
    footprint.backward_work.bytes += 2 * bytes_of({input_of(step, sizes)});
  if (!sizes.adapted) return;
  footprint.forward_work.flops += product_flops(step, step.rank, sizes.in + sizes.out);
  footprint.backward_work.flops += product_flops(step, step.rank, (1 + back) * sizes.in + 2 * sizes.out);
  if (step.adapter_bytes == step.compute_bytes) return;
  const int64_t both = step.adapter_bytes + step.compute_bytes;
  footprint.forward_work.bytes += value_of({{step.tokens, ""}, {sizes.in + 2 * sizes.out, ""}, {both, ""}});
  footprint.backward_work.bytes += value_of({{step.tokens, ""}, {(1 + back) * sizes.in + sizes.out, ""}, {both, ""}});
}

void append(Moment& moment, const Moment& more) { moment.insert(moment.end(), more.begin(), more.end()); }

}  // namespace

Footprint linear_footprint(const StepSizes& step, const LinearSizes& sizes) {
  if (sizes.fake_codes) return fake_quantized_footprint(step, sizes);
  const bool widens = sizes.adapted && step.adapter_bytes != step.compute_bytes;
  const Bytes input = input_of(step, sizes);
  const Bytes output = {"output of a linear layer", kProduct, step.wide(sizes.out, step.compute_bytes)};
  const Bytes of_output = {"gradient of a linear layer's output", kGradientSource, output.product};
  Footprint footprint;
  add_work(step, sizes, footprint);
  Moment forward = {input, output}, of_weight = {of_output}, of_input = {of_output};
  append(forward, made_for_product(step, sizes));
  if (sizes.trained && step.casts()) {
    const Product copy = {{sizes.out, ""}, {sizes.in, ""}, {step.compute_bytes, "bytes"}};
    footprint.kept.push_back({"autocast's copies of weights", kAutocastSource, copy, kCopy});
    of_weight.push_back({"gradient of a weight, before its cast", kGradientSource, copy});
  }
  if (sizes.adapted) {
    footprint.kept.push_back({"adapters' inner products", kLora, step.wide(step.rank, step.adapter_bytes)});
    if (step.adapter_bytes == 2) {
      footprint.kept.push_back({"autocast's copies of adapters",
                                kAutocastSource,
                                {{step.rank, ""}, {sizes.in + sizes.out, ""}, {step.adapter_bytes, "bytes"}},
                                kCopy});
    }
    if (step.dropout) {
      footprint.kept.push_back({"masks of dropout", "dropout keeps which elements it left out (Srivastava et al. 2014)",
                                step.wide(sizes.in, 1)});
    }
  }
  const Bytes wide_input = {"adapters' input, cast", kLora, step.wide(sizes.in, step.adapter_bytes)};
  const Bytes wide_output = {"output, or its gradient, in the adapters' type", kLora,
                             step.wide(sizes.out, step.adapter_bytes)};
  if (sizes.keeps_input() && sizes.makes_input_again) of_weight.push_back(input);
  if (widens) {
    append(forward, {wide_input, wide_output});
    append(of_weight, {wide_input, wide_output});
  }
  if (sizes.adapted && step.dropout) of_weight.push_back({"adapters' input, dropped out", kLora, wide_input.product});
  footprint.forward = {std::move(forward)};
  if (sizes.keeps_input()) footprint.backward.push_back(std::move(of_weight));
  if (!sizes.input_needs_gradient) return footprint;
  of_input.push_back({"gradient of a linear layer's input", kGradientSource, input.product});
  Moment through = of_input;
  if (!sizes.trained) append(of_input, made_for_product(step, sizes));
  footprint.backward.push_back(std::move(of_input));
  if (sizes.adapted && (widens || step.dropout)) {
    append(through, {{"gradient of adapters' input", kLora, wide_input.product},
                     {"gradient of adapters' input, cast", kLora, input.product}});
    footprint.backward.push_back(std::move(through));
  }
  return footprint;
}

}  // namespace fathom::ops
