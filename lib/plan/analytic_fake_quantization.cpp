// Quantization-aware training in sizes alone: ops::fake_quantized_linear, and inputs that are rounded.
#include <algorithm>
#include <utility>

#include "arch/parameter_table.h"
#include "ops/quantized_part_size.h"
#include "plan/analytic_operators.h"
#include "plan/analytic_sources.h"
#include "plan/analytic_step.h"

namespace fathom::plan {
namespace {

using ledger::Component;

constexpr const char* kRounded = "weights rounded to their codes and read back (Esser et al. 2019, arXiv 1902.08153)";
constexpr const char* kParts = "some millions of numbers at a time; lib/ops/fake_quantize_parts.cpp";
constexpr const char* kTokens = "tokens rounded to INT8 and read back; lib/ops/fake_quantize.h";
constexpr const char* kSteps = "one step for each row or group, in FP32 (Esser et al. 2019, arXiv 1902.08153)";
constexpr int64_t kWide = 4;  // of an element in FP32

Product matrix(const Weight& weight, int64_t bytes) {
  return {{weight.rows, ""}, {weight.columns, ""}, {bytes, "bytes"}};
}

Product steps_of(const Weight& weight) { return {{weight.steps, "steps"}, {kWide, "bytes"}}; }

// Numbers of a matrix that ATen's operators take at a time.
int64_t part_of(int64_t elements) { return std::min(ops::kDequantizedPart, elements); }

}  // namespace

// Merged with its adapter in FP32; null where it is rounded from where it lies.
Tensor Operators::merged_weight(const Weight& weight) {
  return weight.adapted ? take("weight with its adapter", kRounded, matrix(weight, kWide)) : nullptr;
}

// In place of a merged weight of the same type.
Tensor Operators::rounded_weight(const Weight& weight, Tensor merged) {
  const bool in_place = merged && s_.compute_bytes == kWide;
  Tensor rounded = in_place ? std::move(merged) : take("rounded weights", kRounded, matrix(weight, s_.compute_bytes));
  if (s_.cuda) {
    const Tensor codes = take("codes of a part of a weight", kParts,
                              {{part_of(weight.rows * weight.columns), "numbers"}, {kWide, "bytes"}});
  }
  return rounded;
}

// Where not even the input needs a gradient, the steps do.
Value Operators::fake_quantized_linear(LinearInput& input, Weight& weight, const char* output_name,
                                       const char* source) {
  Value result = {nullptr, new_slot(true)};
  {
    const Tensor rounded = rounded_weight(weight, merged_weight(weight));
    Tensor bias;
    if (s_.casts_base && weight.bias) {
      bias = cast_weight(weight.copy_bias, weight.trained, weight.copy_name,
                         {{weight.rows, ""}, {s_.compute_bytes, "bytes"}});
    }
    result.data = take(output_name, source, wide(weight.rows, s_.compute_bytes));
  }
  if (!result.slot) return result;
  remember([this, kept = input.kept, x = input.x.slot, output = result.slot, &weight]() mutable {
    fake_quantized_backward(kept, weight, *output, x);
  });
  return result;
}

void Operators::fake_quantized_backward(std::shared_ptr<LinearInput::Kept>& kept, Weight& weight, Slot& output,
                                        const std::shared_ptr<Slot>& x) {
  Tensor gradient = std::move(output.gradient), of_bias, of_weight, of_steps, of_a, of_b, of_input;
  if (output.strided) gradient = take("gradient of values, joined", kBackward, wide(weight.rows, s_.compute_bytes));
  if (weight.bias && weight.trained) {
    of_bias =
        gradient_of_weight(weight.gradient_name, {{weight.rows, ""}, {s_.compute_bytes, "bytes"}}, s_.stored_bytes);
  }
  Tensor merged = merged_weight(weight);
  {
    const Tensor again = input_again(*kept, weight.columns, s_.compute_bytes);
    of_weight = gradient_of_weight(weight.gradient_name, matrix(weight, s_.compute_bytes),
                                   weight.adapted ? kWide : s_.stored_bytes);
  }
  of_steps = take("gradients of steps", kSteps, steps_of(weight));
  if (s_.cuda) {
    const Product part = {{part_of(weight.rows * weight.columns), "numbers"}, {2 * kWide + 2, "bytes"}};
    const Tensor places = take("codes of a part of a weight, and which it has", kParts, part);
  }
  if (weight.adapted) {
    const int64_t rank = s_.run.lora_r;
    of_b = take(weight.adapter_gradient_name.c_str(), kGradient, {{weight.rows, ""}, {rank, ""}, {kWide, "bytes"}});
    of_a = take(weight.adapter_gradient_name.c_str(), kGradient, {{rank, ""}, {weight.columns, ""}, {kWide, "bytes"}});
  }
  if (!weight.trained) of_weight.reset();
  kept.reset();
  if (x) {
    const Tensor rounded = rounded_weight(weight, std::move(merged));
    of_input = take("gradient of a linear layer's input", kBackward, wide(weight.columns, s_.compute_bytes));
  }
  merged.reset();
  gradient.reset();
  accumulate(x, std::move(of_input), wide(weight.columns, s_.compute_bytes));
  if (of_weight) give_gradient(weight.gradient, std::move(of_weight));
  if (of_bias) give_gradient(weight.gradient_bias, std::move(of_bias));
  if (of_a) give_gradient(weight.gradient_a, std::move(of_a));
  if (of_b) give_gradient(weight.gradient_b, std::move(of_b));
  give_gradient(weight.gradient_steps, std::move(of_steps));
}

// Of the type of products, which on a GPU goes through magnitudes and FP32.
Tensor Operators::round_tokens(int64_t width) {
  const auto each = [&](int64_t bytes) { return take("tokens, on their way to INT8", kTokens, wide(width, bytes)); };
  if (s_.cuda) {
    const Tensor magnitudes = each(s_.compute_bytes);
  }
  const Tensor codes = s_.cuda && s_.compute_bytes != kWide ? each(kWide) : nullptr;
  return take("rounded tokens", kTokens, wide(width, s_.compute_bytes));
}

LinearInput Operators::rounded_input(LinearInput input, int64_t width) {
  if (s_.run.qat_activations == config::QatActivations::kNone) return input;
  const Tensor rounded = round_tokens(width);
  const std::shared_ptr<LinearInput::Kept> kept = input.kept;
  return LinearInput({rounded, input.x.slot}, [this, width, kept] {
    const Tensor x = kept->again ? kept->again() : kept->tensor;
    return round_tokens(width);
  });
}

// Steps begin at the largest magnitudes, a part of a matrix at a time.
void AccountOfRun::load_steps() {
  if (!s_.fake_scheme) return;
  account_.enter("load", "the first steps", 0);
  int64_t most = 0;
  for (const arch::ParameterRow& row : s_.parameters.rows) {
    if (row.spec.role == arch::Role::kProjection) most = std::max(most, part_of(row.spec.elements()));
  }
  account_.take("magnitudes of a part of a matrix", kParts, {{most, "numbers"}, {s_.stored_bytes, "bytes"}});
}

}  // namespace fathom::plan
