// Linear layers, plain or with a LoRA adapter (Hu et al. 2021, arXiv 2106.09685) as PEFT computes it.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/autocast.h"
#include "ops/fake_quantize.h"
#include "ops/footprint.h"
#include "ops/linear_input.h"
#include "ops/quantized_matrix.h"

namespace fathom::ops {

struct LoraAdapter {
  at::Tensor a_RD, b_NR;  // FP32 whatever the base
  double scaling = 1;     // alpha / r
  double dropout = 0;
};

struct Linear {
  at::Tensor weight_ND;  // undefined: quantized
  at::Tensor bias_N;     // undefined: none
  std::optional<LoraAdapter> adapter;
  std::optional<QuantizedMatrix> quantized_ND = std::nullopt;  // the weight, frozen
  bool int8_activations = false;                               // of an INT8 weight: ops/int8_linear.h, and no gradient
  std::optional<FakeQuantizer> quantizer = std::nullopt;       // the weight is trained as it will be stored
};

// x W^T + bias + scaling * dropout(x) A^T B^T, in the type of x. Without autocast the adapter's part is computed in the
// adapter's type and the sum rounded once; under autocast A and B are cast like any weight.
//
// Keeps for the backward pass: the input (LinearInput says how) where a weight or an adapter needs a gradient; of an
// adapter x A^T and one byte for each element that dropout looked at; autocast's copies of weights that are trained. A
// frozen weight is cast, or dequantized, again: no copy of it outlives its product. With a quantizer:
// ops/fake_quantized_linear.h.
at::Tensor linear(const LinearInput& input, const Linear& layer, const ComputeScope& compute, bool training);

// A linear layer, by its sizes.
struct LinearSizes {
  int64_t in = 0, out = 0;
  bool trained = false, adapted = false;
  bool makes_input_again = false;                          // in the backward pass, instead of keeping it
  bool input_needs_gradient = true;                        // not of the first layer over a frozen embedding
  std::optional<quant::Scheme> codes = std::nullopt;       // in which the frozen weight is stored
  std::optional<quant::Scheme> fake_codes = std::nullopt;  // to which the weight is rounded for each product
  bool keeps_input() const { return trained || adapted || fake_codes; }
};
// The input is not in `kept`: several layers may share it.
Footprint linear_footprint(const StepSizes& step, const LinearSizes& sizes);

}  // namespace fathom::ops
