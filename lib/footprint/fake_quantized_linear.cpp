// A linear layer in quantization-aware training, whose weight is rounded for each product.
#include <algorithm>
#include <utility>

#include "footprint/linear.h"
#include "footprint/quantized_part_size.h"

namespace fathom::footprint {

namespace {

constexpr const char* kSource = "weights rounded to their codes and read back (Esser et al. 2019, arXiv 1902.08153)";
constexpr int64_t kWide = 4;

}  // namespace

Tensors rounded_input(const StepSizes& step, int64_t width) {
  constexpr const char* kRounded = "tokens rounded to codes of their own scale; lib/ops/quantized/fake_quantize.cpp";
  Tensors rounded = {{"input of linear layers, rounded", kRounded, step.wide(width, step.compute_bytes)}};
  if (step.cuda && step.compute_bytes != kWide) {  // by ATen's operators
    rounded.push_back({"codes of an input", kRounded, step.wide(width, kWide)});
  }
  return rounded;
}

Footprint fake_quantized_footprint(const StepSizes& step, const LinearSizes& sizes) {
  const Product of_input = step.wide(sizes.in, step.compute_bytes),
                of_output = step.wide(sizes.out, step.compute_bytes);
  const auto matrix = [&](const char* what, int64_t bytes) -> Bytes {
    return {what, kSource, {{sizes.out, ""}, {sizes.in, ""}, {bytes, "bytes"}}};
  };
  const bool in_place = sizes.adapted && step.compute_bytes == kWide;
  Tensors rounded, of_weight = {{"gradient of a linear layer's output", kGradientSource, of_output}};
  if (sizes.adapted) {
    rounded.push_back(matrix("weight with its adapter", kWide));
    of_weight.push_back(rounded.front());
  }
  Tensors input_again = of_weight;
  const bool makes_input = sizes.makes_input_again && !sizes.input_is_made;
  if (makes_input) of_weight.push_back({"input of a linear layer", kSource, of_input});
  if (!in_place) rounded.push_back(matrix("rounded weight", step.compute_bytes));
  const int64_t stored = sizes.adapted ? kWide : step.stored_bytes;
  const bool casts = stored != step.compute_bytes && !step.cuda;
  if (casts) of_weight.push_back(matrix("gradient of a rounded weight, before its cast", step.compute_bytes));
  if (!sizes.trained) of_weight.push_back(matrix("gradient of a rounded weight", stored));
  if (step.cuda) {
    const int64_t part = std::min(kDequantizedPart, sizes.in * sizes.out);
    rounded.push_back({"codes of a part of a weight", kSource, {{part, "numbers"}, {kWide, "bytes"}}});
    of_weight.push_back(
        {"codes of a part of a weight, and which it has", kSource, {{part, "numbers"}, {2 * kWide + 2, "bytes"}}});
  }
  Tensors forward = rounded, back = rounded;
  if (!sizes.input_is_kept) forward.push_back({"input of a linear layer", kSource, of_input});
  forward.push_back({"output of a linear layer", kSource, of_output});
  back.push_back({"gradient of a linear layer's output", kGradientSource, of_output});
  back.push_back({"gradient of a linear layer's input", kGradientSource, of_input});
  Footprint footprint = {{}, {std::move(forward)}, {std::move(of_weight)}};
  if (makes_input && sizes.rounds_input_again) {
    if (!sizes.rounds_what_is_kept) input_again.push_back({"input of a linear layer, made again", kSource, of_input});
    const Tensors made = rounded_input(step, sizes.in);
    input_again.insert(input_again.end(), made.begin(), made.end());
    footprint.before_gradients = {std::move(input_again)};
  }
  if (sizes.input_needs_gradient) footprint.backward.push_back(std::move(back));
  const int64_t weights = value_of({{sizes.in, ""}, {sizes.out, ""}}), products = sizes.input_needs_gradient ? 2 : 1;
  footprint.forward_work = {value_of({{2, ""}, {step.tokens, ""}, {weights, ""}}), bytes_of(rounded)};
  // The steps' gradient reads the weight, its codes and the gradient.
  footprint.backward_work = {footprint.forward_work.flops * products,
                             (bytes_of(rounded) + 2 * weights * stored) * products};
  if (sizes.adapted) {  // merged once forward, once backward, where both matrices have their gradients
    footprint.forward_work.flops += value_of({{2, ""}, {weights, ""}, {step.rank, ""}});
    footprint.backward_work.flops += value_of({{6, ""}, {weights, ""}, {step.rank, ""}});
  }
  return footprint;
}

}  // namespace fathom::footprint
