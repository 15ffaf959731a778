// Linear layers in quantization-aware training: products with the weight as it will be stored, an adapter merged into
// it.
#pragma once

#include "ops/linear/linear.h"

namespace fathom::ops {

// W + scaling * B A in FP32, a new tensor: what is quantized where the layer has an adapter, in training and in export.
at::Tensor merged_weight(const at::Tensor& weight_ND, const LoraAdapter& adapter);

// x W'^T + bias with W' = fake_quantize(W), of the merged weight under an adapter, in the type of x. Keeps the input
// alone: the backward pass merges and rounds again, and no copy of a weight outlives its product.
at::Tensor fake_quantized_linear(const LinearInput& input, const Linear& layer, const ComputeScope& compute);

}  // namespace fathom::ops
