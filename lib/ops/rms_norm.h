// Root mean square normalisation (Zhang and Sennrich 2019, arXiv 1910.07467), as transformers' LlamaRMSNorm.
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::ops {

struct NormSettings {
  double eps = 1e-6;
  double offset = 0;  // added to the weight, as Gemma has it, whose weights are stored as distances from 1
};

// y = x / sqrt(mean(x^2) + eps) * (weight + offset) over the last dimension, computed in FP32 and rounded once to
// `out_dtype`. Keeps x and one FP32 number per row for the backward pass. x_TD: contiguous; weight_D: the type of x, or
// wider. On CUDA weight + offset is rounded to the type of x.
at::Tensor rms_norm(const at::Tensor& x_TD, const at::Tensor& weight_D, const NormSettings& settings,
                    at::ScalarType out_dtype);

// The same from ATen's elementwise operators; every device, every type; what the tests compare with.
at::Tensor rms_norm_reference(const at::Tensor& x_TD, const at::Tensor& weight_D, const NormSettings& settings,
                              at::ScalarType out_dtype);

}  // namespace fathom::ops
