// The convolution and the rule as one operator, which keeps what goes into the convolution alone. States are made again
// in the backward pass: those of all borders of chunks are as large as all else that a layer with this rule keeps.
#include "ops/delta/gated_delta.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "ops/delta/delta_heads.h"
#include "ops/delta/delta_operators.h"
#include "ops/text_convolution.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

DeltaTexts texts_of(const at::Tensor& mixed_TD, int64_t length, const Documents* documents) {
  if (documents != nullptr) return {documents->lengths, documents->positions_T};
  return {std::vector<int64_t>(static_cast<size_t>(mixed_TD.size(0) / length), length), {}};
}

// How the convolution takes the same texts.
Texts for_convolution(const DeltaTexts& texts) { return {texts.positions_T, texts.lengths.front()}; }

at::Tensor answers(const arch::GatedDelta& delta, const DeltaInputs& inputs, const DeltaTexts& texts,
                   const at::Tensor& states) {
  return has_delta_kernel(inputs) ? delta_of_heads(delta, inputs, texts, states)
                                  : delta_by_operators(delta, inputs, texts, states);
}

struct GatedDelta : torch::autograd::Function<GatedDelta> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& mixed_TD, const at::Tensor& strengths_TH,
                            const at::Tensor& decays_TH, const at::Tensor& taps_DJ, const at::Tensor& rates_H,
                            const at::Tensor& biases_H, const arch::GatedDelta& delta, const DeltaTexts& texts) {
    context->save_for_backward({mixed_TD, strengths_TH, decays_TH, taps_DJ, rates_H, biases_H, texts.positions_T});
    context->saved_data["lengths"] = texts.lengths;
    context->saved_data["sizes"] =
        std::vector<int64_t>{delta.key_heads, delta.value_heads, delta.key_dim, delta.value_dim, delta.taps};
    const at::Tensor convolved_TD = silu_convolution(mixed_TD, taps_DJ, for_convolution(texts));
    return answers(delta, {convolved_TD, strengths_TH, decays_TH, rates_H, biases_H}, texts, {});
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const std::vector<int64_t> sizes = context->saved_data["sizes"].toIntVector();
    const arch::GatedDelta delta = {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]};
    const DeltaTexts texts = {context->saved_data["lengths"].toIntVector(), saved[6]};
    const at::Tensor &mixed_TD = saved[0], &taps_DJ = saved[3], grad_TD = gradients[0].contiguous();
    DeltaInputs inputs = {silu_convolution(mixed_TD, taps_DJ, for_convolution(texts)), saved[1], saved[2], saved[4],
                          saved[5]};
    const auto wanted = [&](size_t index) {
      return context->needs_input_grad(index) ? at::empty_like(saved[index]) : at::Tensor();
    };
    const at::Tensor of_taps_DJ = wanted(3);
    DeltaGradients made;
    if (has_delta_kernel(inputs)) {
      made = {inputs.mixed_TD, at::empty_like(saved[1]), at::empty_like(saved[2]), wanted(4), wanted(5)};
      delta_of_heads_backward(delta, inputs, texts, grad_TD, made);
    } else {
      made = delta_by_operators_backward(delta, inputs, texts, grad_TD);
    }
    inputs.mixed_TD.reset();
    made.mixed_TD = silu_convolution_backward(made.mixed_TD, mixed_TD, taps_DJ, for_convolution(texts), of_taps_DJ);
    return {made.mixed_TD, made.strengths_TH, made.decays_TH, of_taps_DJ, made.rates_H, made.biases_H, {}, {}};
  }
};

}  // namespace

at::Tensor gated_delta(const arch::GatedDelta& delta, const at::Tensor& mixed_TD, const at::Tensor& strengths_TH,
                       const at::Tensor& decays_TH, const DeltaWeights& weights, int64_t length,
                       const Documents* documents) {
  return GatedDelta::apply(mixed_TD, strengths_TH, decays_TH, weights.taps_DJ, weights.rates_H, weights.biases_H, delta,
                           texts_of(mixed_TD, length, documents));
}

at::Tensor gated_delta_after(const arch::GatedDelta& delta, const at::Tensor& mixed_TD, const at::Tensor& strengths_TH,
                             const at::Tensor& decays_TH, const DeltaWeights& weights,
                             const std::vector<at::Tensor>& kept, bool first) {
  const at::Tensor &last_BSD = kept[0], &states = kept[1];
  const int64_t batch = last_BSD.size(0), before = last_BSD.size(1), length = mixed_TD.size(0) / batch;
  if (first) last_BSD.zero_(), states.zero_();
  const at::Tensor all_BSD = at::cat({last_BSD, mixed_TD.unflatten(0, {batch, length})}, 1);
  last_BSD.copy_(all_BSD.narrow(1, length, before));
  const at::Tensor convolved_TD = silu_convolution(all_BSD.flatten(0, 1), weights.taps_DJ, {{}, before + length})
                                      .view(all_BSD.sizes())
                                      .narrow(1, before, length)
                                      .flatten(0, 1)
                                      .contiguous();
  const DeltaInputs inputs = {convolved_TD, strengths_TH, decays_TH, weights.rates_H, weights.biases_H};
  if (length == 1 && !has_delta_kernel(inputs)) return delta_step_by_operators(delta, inputs, states);
  return answers(delta, inputs, texts_of(mixed_TD, length, nullptr), states);
}

}  // namespace fathom::ops
