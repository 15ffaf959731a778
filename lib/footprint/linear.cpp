// Plain, quantized or with an adapter.
#include "footprint/linear.h"

#include <algorithm>
#include <utility>

#include "footprint/quantized_part_size.h"

namespace fathom::footprint {
namespace {

constexpr const char* kDequantized = "a quantized matrix for one product (Dettmers et al. 2023, arXiv 2305.14314)";
constexpr const char* kFp8 = "FP8, a scale for each row (Micikevicius et al. 2022, arXiv 2209.05433)";
constexpr const char* kProduct = "a product with weights";

Bytes input_of(const StepSizes& step, const LinearSizes& sizes) {
  return {"input of a linear layer", kProduct, step.wide(sizes.in, step.compute_bytes)};
}

bool widens(const StepSizes& step, const LinearSizes& sizes) {
  return sizes.adapted && step.adapter_bytes != step.compute_bytes;
}

// For the products with an adapter.
Bytes wide_input_of(const StepSizes& step, const LinearSizes& sizes) {
  return {"adapters' input, cast", kLora, step.wide(sizes.in, step.adapter_bytes)};
}

bool multiplies_in_fp8(const StepSizes& step, const LinearSizes& sizes) {
  return step.fp8_products && (sizes.trained || (sizes.codes && quant::is_fp8_of_rows(*sizes.codes)));
}

// What a product needs of a weight that is not there as it is: a copy in the type of products, and by ATen's operators
// on a GPU tables through which 4-bit codes are looked up a part at a time.
Tensors made_for_product(const StepSizes& step, const LinearSizes& sizes) {
  const Product copy = {{sizes.out, ""}, {sizes.in, ""}, {step.compute_bytes, "bytes"}};
  if (!sizes.codes) {
    const bool casts = step.casts() && !sizes.comes_cast;
    return casts ? Tensors{{"autocast's copy of a weight", kAutocastSource, copy, kCopy}} : Tensors{};
  }
  Tensors made = {{"dequantized weight", kDequantized, copy}};
  if (step.cuda && !step.own_kernels && quant::is_in_4_bits(*sizes.codes)) {
    const int64_t numbers = std::min(kDequantizedPart, sizes.in * sizes.out);
    made.push_back(
        {"codes as indices, and what they stand for", kDequantized, {{numbers / 2, "pairs"}, {4 + 8, "bytes"}}});
  }
  return made;
}

// Beside what a product in FP8 reads and writes: the codes of its rows, one scale each, and those of a weight that is
// not stored so.
Tensors made_in_fp8(const StepSizes& step, const LinearSizes& sizes, int64_t width) {
  Tensors made = {{"rows in FP8", kFp8, step.wide(width, 1)}, {"scales of rows in FP8", kFp8, step.wide(1, 4)}};
  if (sizes.codes) return made;
  made.push_back({"a weight in FP8", kFp8, {{sizes.out, ""}, {sizes.in, ""}, {1, "byte"}}, kCopy});
  made.push_back({"scales of a weight in FP8", kFp8, {{sizes.out, ""}, {4, "bytes"}}, kCopy});
  return made;
}

// Forward, and for the gradient of the input, which becomes a tensor of its own that joins the others'.
Tensors made_for_forward(const StepSizes& step, const LinearSizes& sizes) {
  return multiplies_in_fp8(step, sizes) ? made_in_fp8(step, sizes, sizes.in) : made_for_product(step, sizes);
}
Tensors made_for_backward(const StepSizes& step, const LinearSizes& sizes) {
  if (!multiplies_in_fp8(step, sizes)) return made_for_product(step, sizes);
  Tensors made = made_in_fp8(step, sizes, sizes.out);
  made.push_back({"codes of a weight, turned", kFp8, {{sizes.out, ""}, {sizes.in, ""}, {1, "byte"}}});
  if (sizes.adds_to_gradient)
    made.push_back({"a share of the input's gradient", kGradientSource, input_of(step, sizes).product});
  return made;
}

// Products of a token's input with so many weights, and of the weights' gradients.
int64_t product_flops(const StepSizes& step, int64_t weights, int64_t times) {
  return value_of({{2, ""}, {step.tokens, ""}, {weights, ""}, {times, ""}});
}

// What products do, and the copies of a weight that are made for them.
void add_work(const StepSizes& step, const LinearSizes& sizes, bool copies, Footprint& footprint) {
  const int64_t weights = value_of({{sizes.in, ""}, {sizes.out, ""}}), back = sizes.input_needs_gradient ? 1 : 0;
  footprint.forward_work.flops = product_flops(step, weights, 1);
  footprint.backward_work.flops = product_flops(step, weights, (sizes.trained ? 1 : 0) + back);
  const int64_t read =
      sizes.codes ? quant::layout_of(*sizes.codes, sizes.out, sizes.in).bytes() : weights * step.stored_bytes;
  int64_t copy = copies ? weights * step.compute_bytes + read : 0;
  const bool in_fp8 = multiplies_in_fp8(step, sizes);
  if (in_fp8) copy = sizes.codes ? 0 : weights * (step.stored_bytes + 1);  // beside rows, which are few
  footprint.forward_work.bytes = copy;
  footprint.backward_work.bytes =
      sizes.trained || back == 1 ? copy : 0;                        // a trained weight's gradient, or the copy again
  if (in_fp8) footprint.backward_work.bytes += back * 2 * weights;  // which are turned
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

void append(Tensors& moment, const Tensors& more) { moment.insert(moment.end(), more.begin(), more.end()); }

// The moments of the backward pass in which it is made.
void add_gradient_of_input(const StepSizes& step, const LinearSizes& sizes, const Bytes& of_output,
                           Footprint& footprint) {
  const Bytes input = input_of(step, sizes), wide_input = wide_input_of(step, sizes);
  Tensors of_input = {of_output};
  if (!sizes.adds_to_gradient) {
    of_input.push_back({"gradient of a linear layer's input", kGradientSource, input.product});
  }
  Tensors through = of_input;
  if (!sizes.trained || multiplies_in_fp8(step, sizes)) append(of_input, made_for_backward(step, sizes));
  footprint.backward.push_back(std::move(of_input));
  if (!widens(step, sizes) && !(sizes.adapted && step.dropout)) return;
  through.push_back({"gradient of adapters' input", kLora, wide_input.product});
  if (widens(step, sizes)) {
    through.push_back({"gradient of adapters' input, cast", kLora, input.product});
  } else if (step.cuda) {  // elsewhere dropout is in place
    through.push_back({"gradient of adapters' input, before dropout", kLora, wide_input.product});
  }
  footprint.backward.push_back(std::move(through));
}

}  // namespace

Footprint linear_footprint(const StepSizes& step, const LinearSizes& sizes) {
  if (sizes.fake_codes) return fake_quantized_footprint(step, sizes);
  const Bytes input = input_of(step, sizes);
  const Bytes output = {"output of a linear layer", kProduct, step.wide(sizes.out, step.compute_bytes)};
  const Bytes of_output = {"gradient of a linear layer's output", kGradientSource, output.product};
  const Bytes mask = {"masks of dropout", "dropout keeps which elements it left out (Srivastava et al. 2014)",
                      step.wide(sizes.in, 1)};
  const Bytes inner = {"adapters' inner products", kLora, step.wide(step.rank, step.adapter_bytes)};
  Footprint footprint;
  const Tensors made = made_for_forward(step, sizes);
  add_work(step, sizes, !made.empty(), footprint);
  Tensors given = {output}, of_weight = {of_output};
  if (!sizes.input_is_kept) given.push_back(input);
  footprint.forward = {given};
  append(footprint.forward.front(), made);
  if (sizes.trained && step.casts() && !multiplies_in_fp8(step, sizes)) {
    const Product copy = {{sizes.out, ""}, {sizes.in, ""}, {step.compute_bytes, "bytes"}};
    if (!sizes.comes_cast) footprint.kept.push_back({"autocast's copies of weights", kAutocastSource, copy, kCopy});
    if (!step.cuda) of_weight.push_back({"gradient of a weight, before its cast", kGradientSource, copy});
  }
  if (sizes.adapted) {
    footprint.kept.push_back(inner);
    if (step.adapter_bytes == 2 && !step.adapters_stay_cast) {
      const Product casts = {{step.rank, ""}, {sizes.in + sizes.out, ""}, {step.adapter_bytes, "bytes"}};
      footprint.kept.push_back({"autocast's copies of adapters", kAutocastSource, casts, kCopy});
    }
    if (step.dropout) footprint.kept.push_back(mask);
  }
  const Bytes wide_input = wide_input_of(step, sizes);
  const Bytes wide_output = {"output, or its gradient, in the adapters' type", kLora,
                             step.wide(sizes.out, step.adapter_bytes)};
  const Bytes dropped = {"adapters' input, dropped out", kLora, wide_input.product};
  const bool makes_again = sizes.keeps_input() && sizes.makes_input_again && !sizes.input_is_made;
  const bool casts_again = widens(step, sizes) && !sizes.input_is_made, drops = sizes.adapted && step.dropout;
  if (makes_again) of_weight.push_back(input);
  if (widens(step, sizes)) {
    given.push_back(wide_input);
    if (casts_again) of_weight.push_back(wide_input);
    footprint.forward.push_back(given);
    append(footprint.forward.back(), {inner, wide_output});
    if (drops) footprint.forward.back().push_back(mask);
    footprint.backward.push_back({of_output, wide_output});
  }
  if (sizes.keeps_input()) footprint.backward.push_back(std::move(of_weight));
  if (drops) {
    append(given, {dropped, mask, inner});
    footprint.forward.push_back(std::move(given));
    footprint.backward.push_back({of_output, dropped});
    if (makes_again || casts_again) footprint.backward.back().push_back(wide_input);
  }
  if (sizes.met_by_gate && sizes.keeps_input()) {
    footprint.backward.push_back({of_output,
                                  {"gradients of gate and up, and the input in the place of its own", kGradientSource,
                                   step.wide(3 * sizes.in, step.compute_bytes)}});
    if (casts_again) footprint.backward.back().push_back(wide_input);
    if (drops) footprint.backward.back().push_back(dropped);
  }
  if (sizes.input_needs_gradient) add_gradient_of_input(step, sizes, of_output, footprint);
  return footprint;
}

}  // namespace fathom::footprint
