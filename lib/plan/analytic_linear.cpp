// Linear layers with their adapters, as ops::linear computes them: y = W x + bias + b (a x).
#include <algorithm>
#include <utility>

#include "base/rounding.h"
#include "ops/quantized_part_size.h"
#include "plan/analytic_operators.h"
#include "plan/analytic_sources.h"
#include "quant/nf4.h"

namespace fathom::plan {
namespace {

constexpr const char* kLora = "LoRA: y = W x + b (a x) (Hu et al. 2021, arXiv 2106.09685)";
constexpr const char* kDequantized = "a quantized matrix for one product (Dettmers et al. 2023, arXiv 2305.14314)";
constexpr const char* kLookedUp = "codes are looked up in tables; lib/ops/quantized_parts.cpp";
constexpr const char* kDropout = "dropout keeps which elements it left out (Srivastava et al. 2014); lib/ops/dropout.h";
constexpr const char* kAgain = "inputs that cost little are made again in the backward pass; lib/ops/linear_input.h";

Product matrix(int64_t rows, int64_t columns, int64_t bytes) { return {{rows, ""}, {columns, ""}, {bytes, "bytes"}}; }

}  // namespace

LinearInput::LinearInput(Value value, std::function<Tensor()> again) : x(std::move(value)) {
  kept = std::make_shared<Kept>();
  if (again && x.slot) {
    kept->again = std::move(again);
  } else {
    kept->tensor = x.data;
  }
}

// Of the type asked for; the layers that share the input make it once.
Tensor Operators::input_again(LinearInput::Kept& kept, int64_t columns, int64_t bytes) {
  if (kept.made && kept.made_bytes == bytes) return kept.made;
  kept.made.reset();
  Tensor x = kept.again ? kept.again() : kept.tensor;
  if (bytes != s_.compute_bytes) x = take("adapters' input, cast again", kAgain, wide(columns, bytes));
  kept.made = x;
  kept.made_bytes = bytes;
  return x;
}

// What the backward pass of one layer needs.
struct Operators::KeptOfLinear {
  Tensor copy;            // autocast's, of a weight that is trained
  Tensor copy_a, copy_b;  // null where the adapter itself is used
  Tensor inner, mask;
  std::shared_ptr<LinearInput::Kept> input;
};

Value Operators::linear(LinearInput& input, Weight& weight, const char* output_name, const char* source) {
  if (weight.steps > 0) return fake_quantized_linear(input, weight, output_name, source);
  const bool trains = gradients_ && (weight.trained || weight.adapted);
  Value result = {nullptr, new_slot(input.x.slot || trains)};
  KeptOfLinear kept;
  {
    const Product bias_size = {{weight.rows, ""}, {s_.compute_bytes, "bytes"}};
    const Tensor copy = base_for_product(weight);
    Tensor bias;
    if (s_.casts_base && weight.bias) {
      bias = cast_weight(weight.copy_bias, weight.trained, weight.copy_name, bias_size);
    }
    result.data = take(output_name, source, wide(weight.rows, s_.compute_bytes));
    if (input.x.slot && weight.trained) kept.copy = copy;
  }
  if (weight.adapted) add_adapter(input, weight, kept, result, output_name);
  if (!result.slot) return result;
  if (trains) kept.input = input.kept;
  remember([this, kept = std::move(kept), x = input.x.slot, output = result.slot, &weight]() mutable {
    linear_backward(kept, weight, *output, x);
  });
  return result;
}

// The copy of a weight in the type of products; none where it is stored so.
Tensor Operators::base_for_product(Weight& weight) {
  if (s_.scheme && !weight.trained) return dequantized(weight);
  if (!s_.casts_base) return nullptr;
  return cast_weight(weight.copy, weight.trained, weight.copy_name,
                     matrix(weight.rows, weight.columns, s_.compute_bytes));
}

// A frozen matrix in the type of products; on a GPU 4-bit codes go through tables, a part at a time.
Tensor Operators::dequantized(const Weight& weight) {
  Tensor copy = take("dequantized weights", kDequantized, matrix(weight.rows, weight.columns, s_.compute_bytes));
  if (!s_.cuda || quant::has_row_scales(*s_.scheme)) return copy;
  const int64_t values = std::min(ops::kDequantizedPart, weight.rows * weight.columns);
  const int64_t blocks = divide_up(values, quant::kNf4Block);
  const Tensor bytes =
      take("bytes of 4-bit codes, as indices", kLookedUp, {{divide_up(values, 2), "bytes"}, {4, "bytes"}});
  const Tensor pairs = take("values of 4-bit codes", kLookedUp, {{divide_up(values, 2), "pairs"}, {8, "bytes"}});
  if (s_.scheme == quant::Scheme::kNf4DoubleQuant) {
    const Tensor codes = take("codes of NF4's scales, as indices", kLookedUp, {{blocks, "scales"}, {4, "bytes"}});
    const Tensor scales = take("scales of NF4", kLookedUp, {{blocks, "scales"}, {4, "bytes"}});
  }
  return copy;
}

// a x and its product with b, added to the base's; in place where both have the same type.
void Operators::add_adapter(LinearInput& input, Weight& weight, KeptOfLinear& kept, Value& result,
                            const char* output_name) {
  const bool casts = s_.adapter_bytes != s_.compute_bytes;
  if (s_.adapter_bytes != kStoredAdapterBytes) {
    kept.copy_a = cast_weight(weight.copy_a, true, weight.adapter_copy_name,
                              matrix(s_.run.lora_r, weight.columns, s_.adapter_bytes));
    kept.copy_b = cast_weight(weight.copy_b, true, weight.adapter_copy_name,
                              matrix(weight.rows, s_.run.lora_r, s_.adapter_bytes));
  }
  const Product input_size = wide(weight.columns, s_.adapter_bytes);
  if (casts && !input.cast) input.cast = take("adapters' input, cast", kLora, input_size);
  {
    Tensor dropped;
    if (training_ && s_.run.lora_dropout > 0) {
      kept.mask = take("masks of dropout", kDropout, wide(weight.columns, 1));
      dropped = take("adapters' input, dropped out", kDropout, input_size);
    }
    kept.inner = take("adapters' inner products", kLora, wide(s_.run.lora_r, s_.adapter_bytes));
  }
  if (!casts) return;
  result.data = take("output of a linear layer, with its adapter", kLora, wide(weight.rows, s_.adapter_bytes));
  result.data = take(output_name, kLora, wide(weight.rows, s_.compute_bytes));
}

// A gradient in the type of products, then in that of the weight.
Tensor Operators::gradient_of_weight(const std::string& name, Product size, int64_t stored_bytes) {
  Tensor made = take(name.c_str(), kGradient, size);
  if (size.back().count == stored_bytes) return made;
  size.back().count = stored_bytes;
  return take(name.c_str(), kGradient, size);
}

void Operators::linear_backward(KeptOfLinear& kept, Weight& weight, Slot& output, const std::shared_ptr<Slot>& x) {
  Tensor gradient = std::move(output.gradient), of_weight, of_bias, of_a, of_b, of_input;
  if (output.strided) gradient = take("gradient of values, joined", kBackward, wide(weight.rows, s_.compute_bytes));
  if (weight.trained) {
    const Tensor again = input_again(*kept.input, weight.columns, s_.compute_bytes);
    of_weight = gradient_of_weight(weight.gradient_name, matrix(weight.rows, weight.columns, s_.compute_bytes),
                                   s_.stored_bytes);
    if (weight.bias) {
      of_bias =
          gradient_of_weight(weight.gradient_name, {{weight.rows, ""}, {s_.compute_bytes, "bytes"}}, s_.stored_bytes);
    }
  }
  Tensor of_inner;
  if (weight.adapted) of_inner = adapter_backward(kept, weight, of_a, of_b);
  kept.input.reset();
  if (x) {
    {
      Tensor copy;
      if (!weight.trained) copy = base_for_product(weight);
      of_input = take("gradient of a linear layer's input", kBackward, wide(weight.columns, s_.compute_bytes));
    }
    if (weight.adapted) add_through_adapter(kept, weight);
  }
  of_inner.reset();
  kept = {};
  gradient.reset();
  accumulate(x, std::move(of_input), wide(weight.columns, s_.compute_bytes));
  if (of_weight) give_gradient(weight.gradient, std::move(of_weight));
  if (of_bias) give_gradient(weight.gradient_bias, std::move(of_bias));
  if (of_a) give_gradient(weight.gradient_a, std::move(of_a));
  if (of_b) give_gradient(weight.gradient_b, std::move(of_b));
}

// Returns the gradient of a x.
Tensor Operators::adapter_backward(KeptOfLinear& kept, Weight& weight, Tensor& of_a, Tensor& of_b) {
  const int64_t rank = s_.run.lora_r, bytes = s_.adapter_bytes;
  Tensor of_inner;
  {
    Tensor cast;
    if (bytes != s_.compute_bytes) {
      cast = take("gradient of an adapted output, cast", kBackward, wide(weight.rows, bytes));
    }
    of_b = gradient_of_weight(weight.adapter_gradient_name, matrix(weight.rows, rank, bytes), kStoredAdapterBytes);
    kept.inner.reset();
    of_inner = take("gradient of adapters' inner products", kBackward, wide(rank, bytes));
  }
  const Tensor x = input_again(*kept.input, weight.columns, bytes);
  Tensor dropped;
  if (kept.mask) dropped = take("adapters' input, dropped out", kDropout, wide(weight.columns, bytes));
  of_a = gradient_of_weight(weight.adapter_gradient_name, matrix(rank, weight.columns, bytes), kStoredAdapterBytes);
  return of_inner;
}

// What the input's gradient takes in on its way through the adapter; nothing more where both products add up in place.
void Operators::add_through_adapter(const KeptOfLinear& kept, const Weight& weight) {
  const int64_t bytes = s_.adapter_bytes;
  const bool casts = bytes != s_.compute_bytes;
  if (!kept.mask && !casts) return;
  const auto part = [&](int64_t size) {
    return take("gradient of adapters' input", kBackward, wide(weight.columns, size));
  };
  Tensor through = part(bytes);
  if (kept.mask && s_.cuda) through = part(bytes);
  if (casts) {
    const Tensor cast = part(s_.compute_bytes);
  }
}

}  // namespace fathom::plan
