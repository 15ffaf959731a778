// Linear layers and their LoRA adapters, with as few tensors as their formulas need.
#include "ops/linear.h"

#include <ATen/ATen.h>

namespace fathom::ops {

const at::Tensor& LinearInput::as(at::ScalarType dtype) const {
  if (x_TD_.scalar_type() == dtype) return x_TD_;
  if (!cast_TD_.defined() || cast_TD_.scalar_type() != dtype) cast_TD_ = x_TD_.to(dtype);
  return cast_TD_;
}

at::Tensor dropout(const at::Tensor& x, double p) {
  if (p == 0) return x;
  if (x.is_cuda()) return std::get<0>(at::native_dropout(x, p, true));
  return x * at::empty_like(x).bernoulli_(1 - p).div_(1 - p);
}

at::Tensor linear(const LinearInput& input, const Linear& layer, const ComputeScope& compute, bool training) {
  std::optional<at::Tensor> bias_N;
  if (layer.bias_N.defined()) bias_N = compute.weight(layer.bias_N);
  at::Tensor y_TN = at::linear(input.tensor(), compute.weight(layer.weight_ND), bias_N);
  if (!layer.adapter) return y_TN;
  const LoraAdapter& adapter = *layer.adapter;
  const at::Tensor a_RD = compute.weight(adapter.a_RD), b_NR = compute.weight(adapter.b_NR);
  at::Tensor x_TD = input.as(a_RD.scalar_type());
  if (training) x_TD = dropout(x_TD, adapter.dropout);
  const at::Tensor hidden_TR = at::linear(x_TD, a_RD);
  // The product is added in place: nothing keeps y for the backward pass.
  if (hidden_TR.scalar_type() == y_TN.scalar_type()) return y_TN.addmm_(hidden_TR, b_NR.t(), 1, adapter.scaling);
  return y_TN.to(hidden_TR.scalar_type()).addmm_(hidden_TR, b_NR.t(), 1, adapter.scaling).to(y_TN.scalar_type());
}

}  // namespace fathom::ops
