// LoRA adapters beside their weights, as ops::linear computes them: y = W x + b (a x).
#include <utility>

#include "plan/analytic_operators.h"
#include "plan/analytic_sources.h"

namespace fathom::plan {
namespace {

constexpr const char* kLora = "LoRA: y = W x + b (a x) (Hu et al. 2021, arXiv 2106.09685)";
constexpr const char* kDropout = "dropout keeps its mask (Srivastava et al. 2014)";

}  // namespace

Value Operators::dropped_out(const Value& x, int64_t width, const char* name) {
  if (!training_ || s_.run.lora_dropout == 0) return x;
  Tensor mask = take("masks of dropout", kDropout, wide(width, s_.cuda ? 1 : s_.adapter_bytes));
  Value result = {take(name, kDropout, wide(width, s_.adapter_bytes)), new_slot(x.slot != nullptr)};
  if (!result.slot) return result;
  remember([this, mask, width, input = x.slot, output = result.slot]() mutable {
    Tensor made = take("gradient through dropout", kBackward, wide(width, s_.adapter_bytes));
    output->gradient.reset();
    mask.reset();
    accumulate(input, std::move(made), wide(width, s_.adapter_bytes));
  });
  return result;
}

Value Operators::adapt(LinearInput& input, Weight& weight, const Value& product, const char* output_name) {
  const AdapterCopies copies = copy_adapter(weight);
  const bool casts = s_.adapter_bytes != s_.compute_bytes;
  if (casts) cast_adapter_input(input, weight.columns);
  const Value x = dropped_out(casts ? input.cast : input.x, weight.columns, "adapters' input, dropped out");
  const Value inner = multiply_a(weight, x, copies);
  return add_b(weight, product, inner, copies, output_name);
}

// Autocast's copies. Their gradients are cast back when both are there.
Operators::AdapterCopies Operators::copy_adapter(Weight& weight) {
  const int64_t rank = s_.run.lora_r, bytes = s_.adapter_bytes;
  AdapterCopies copies = {{{rank, "ranks"}, {weight.columns, ""}, {bytes, "bytes"}},
                          {{weight.rows, ""}, {rank, "ranks"}, {bytes, "bytes"}},
                          nullptr,
                          nullptr};
  if (bytes == kStoredAdapterBytes) return copies;
  copies.a = cast_weight(weight.copy_a, true, weight.adapter_copy_name, copies.size_a);
  copies.b = cast_weight(weight.copy_b, true, weight.adapter_copy_name, copies.size_b);
  if (!gradients_) return copies;
  remember([this, &weight, wide_a = copies.size_a, wide_b = copies.size_b]() mutable {
    wide_a.back().count = wide_b.back().count = kStoredAdapterBytes;
    give_gradient(weight.gradient_b, take(weight.adapter_gradient_name.c_str(), kGradient, wide_b));
    weight.made_b.reset();
    give_gradient(weight.gradient_a, take(weight.adapter_gradient_name.c_str(), kGradient, wide_a));
    weight.made_a.reset();
  });
  return copies;
}

// Once for all adapters that read the same input.
void Operators::cast_adapter_input(LinearInput& input, int64_t columns) {
  if (input.cast.data) return;
  input.cast = {take("adapters' input, cast", kLora, wide(columns, s_.adapter_bytes)),
                new_slot(input.x.slot != nullptr)};
  if (!input.cast.slot) return;
  remember([this, columns, x = input.x.slot, cast = input.cast.slot] {
    Tensor made = take("gradient of adapters' input, cast", kBackward, wide(columns, s_.compute_bytes));
    cast->gradient.reset();
    accumulate(x, std::move(made), wide(columns, s_.compute_bytes));
  });
}

// a x: keeps x for the gradient of a, and a's copy for that of x.
Value Operators::multiply_a(Weight& weight, const Value& x, const AdapterCopies& copies) {
  const Value inner = {take("adapters' inner products", kLora, wide(s_.run.lora_r, s_.adapter_bytes)), new_slot(true)};
  if (!gradients_) return inner;
  remember([this, &weight, size = copies.size_a, kept = x.data, copy = x.slot ? copies.a : nullptr, x = x.slot,
            inner = inner.slot]() mutable {
    const Product input = wide(weight.columns, s_.adapter_bytes);
    Tensor made = take(weight.adapter_gradient_name.c_str(), kGradient, size);
    Tensor of_input = x ? take("gradient of adapters' input", kBackward, input) : nullptr;
    give_adapter_gradient(weight.gradient_a, weight.made_a, std::move(made));
    inner->gradient.reset();
    copy.reset();
    kept.reset();
    accumulate(x, std::move(of_input), input);
  });
  return inner;
}

// W x + b (a x), in place where both have the same type. Both factors of the scaled product are kept.
Value Operators::add_b(Weight& weight, const Value& product, const Value& inner, const AdapterCopies& copies,
                       const char* output_name) {
  const bool casts = s_.adapter_bytes != s_.compute_bytes;
  Value result = {product.data, new_slot(true)};
  Tensor sum;
  if (casts) sum = take("output of a linear layer, with its adapter", kLora, wide(weight.rows, s_.adapter_bytes));
  if (gradients_) {
    remember([this, &weight, casts, size = copies.size_b, kept = inner.data, copy = copies.b, output = result.slot,
              product = product.slot, inner = inner.slot]() mutable {
      Tensor gradient = std::move(output->gradient);
      if (casts) gradient = take("gradient of an adapted output, cast", kBackward, wide(weight.rows, s_.adapter_bytes));
      // Each product is made first and scaled into another tensor.
      const Product inner_size = wide(s_.run.lora_r, s_.adapter_bytes);
      Tensor unscaled = take("gradient of adapters' inner products", kBackward, inner_size);
      inner->gradient = take("gradient of adapters' inner products", kBackward, inner_size);
      unscaled.reset();
      unscaled = take(weight.adapter_gradient_name.c_str(), kGradient, size);
      give_adapter_gradient(weight.gradient_b, weight.made_b,
                            take(weight.adapter_gradient_name.c_str(), kGradient, size));
      unscaled.reset();
      kept.reset();
      copy.reset();
      if (!product) return;
      if (casts) {
        gradient = take("gradient of a product of weights", kBackward, wide(weight.rows, s_.compute_bytes));
      }
      product->gradient = std::move(gradient);
    });
  }
  if (casts) result.data = take(output_name, kLora, wide(weight.rows, s_.compute_bytes));
  return result;
}

// To the adapter, or to autocast's copy of it.
void Operators::give_adapter_gradient(Tensor& gradient, Tensor& of_copy, Tensor made) {
  if (s_.adapter_bytes == kStoredAdapterBytes) return give_gradient(gradient, std::move(made));
  of_copy = std::move(made);
}

}  // namespace fathom::plan
