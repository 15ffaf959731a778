// Linear layers, plain or with a LoRA adapter (Hu et al. 2021, arXiv 2106.09685) as PEFT computes it.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/autocast.h"
#include "ops/linear/linear_input.h"
#include "ops/quantized/fake_quantize.h"
#include "ops/quantized/quantized_matrix.h"

namespace fathom::ops {

struct LoraAdapter {
  at::Tensor a_RD, b_NR;  // FP32 whatever the base
  double scaling = 1;     // alpha / r
  double dropout = 0;
  at::Tensor a_cast_RD = {}, b_cast_NR = {};  // in autocast's type, where somebody keeps them so
};

// x times it, in place; x itself by a scaling of 1.
at::Tensor scaled(const at::Tensor& x, double scaling);

struct Linear {
  at::Tensor weight_ND;  // undefined: quantized
  at::Tensor bias_N;     // undefined: none
  std::optional<LoraAdapter> adapter;
  std::optional<QuantizedMatrix> quantized_ND = std::nullopt;  // the weight, frozen
  bool int8_activations = false;  // of an INT8 weight: ops/linear/int8_linear.h, and no gradient
  bool fp8_products = false;      // of an FP8 weight, or one that is trained: ops/linear/fp8_linear.h
  std::optional<FakeQuantizer> quantizer = std::nullopt;  // the weight is trained as it will be stored
  at::Tensor cast_ND = {};                                // ComputeScope::weight
};

// x W^T + bias + scaling * dropout(x) A^T B^T, in the type of x. Without autocast the adapter's part is computed in the
// adapter's type and the sum rounded once; under autocast A and B are cast like any weight, or come so.
//
// Keeps for the backward pass: the input (LinearInput says how) where a weight or an adapter needs a gradient; of an
// adapter x A^T and one byte for each element that dropout looked at; autocast's copies of weights that are trained. A
// frozen weight is cast, or dequantized, again: no copy of it outlives its product. With a quantizer:
// ops/linear/fake_quantized_linear.h. Of an input that is shared: ops/linear/shared_input.h.
at::Tensor linear(const LinearInput& input, const Linear& layer, const ComputeScope& compute, bool training);

}  // namespace fathom::ops
