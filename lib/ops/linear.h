// Linear layers, plain or with a LoRA adapter (Hu et al. 2021, arXiv 2106.09685) as PEFT computes it.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/autocast.h"

namespace fathom::ops {

struct LoraAdapter {
  at::Tensor a_RD, b_NR;  // FP32 whatever the base
  double scaling = 1;     // alpha / r
  double dropout = 0;
};

struct Linear {
  at::Tensor weight_ND;
  at::Tensor bias_N;  // undefined: none
  std::optional<LoraAdapter> adapter;
};

// What several layers read: under LoRA without autocast they share one cast to the adapters' type.
class LinearInput {
 public:
  explicit LinearInput(at::Tensor x_TD) : x_TD_(std::move(x_TD)) {}
  const at::Tensor& tensor() const { return x_TD_; }
  const at::Tensor& as(at::ScalarType dtype) const;

 private:
  at::Tensor x_TD_;
  mutable at::Tensor cast_TD_;
};

// x W^T + bias + scaling * dropout(x) A^T B^T, in the type of x. Without autocast the adapter's part is computed in the
// adapter's type and the sum rounded once; under autocast A and B are cast like any weight.
at::Tensor linear(const LinearInput& input, const Linear& layer, const ComputeScope& compute, bool training);

// x with each element kept with probability 1 - p and scaled by 1 / (1 - p).
at::Tensor dropout(const at::Tensor& x, double p);

}  // namespace fathom::ops
