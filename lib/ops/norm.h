// Normalisation of rows: by their root mean square (Zhang and Sennrich 2019, arXiv 1910.07467), as transformers'
// LlamaRMSNorm, or LayerNorm (Ba et al. 2016, arXiv 1607.06450).
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::ops {

struct NormSettings {
  double eps = 1e-6;
  double offset = 0;     // added to the weight, as Gemma has it, whose weights are stored as distances from 1
  bool centred = false;  // LayerNorm: the row's mean is taken away first
};

struct NormWeights {
  at::Tensor weight_D;     // undefined: all are 1, and the offset is not asked for
  at::Tensor bias_D = {};  // undefined: there is none
  bool defined() const { return weight_D.defined(); }
};

// y = (x - m) / sqrt(mean((x - m)^2) + eps) * (weight + offset) + bias over the last dimension, where m is the mean of
// centred rows, else 0; computed in FP32 and rounded once to `out_dtype`. Keeps x and one FP32 number per row for the
// backward pass, two of centred rows. x_TD: contiguous; weight_D and bias_D: the type of x, or wider. By LibTorch's
// operators, on CUDA, these are rounded to the type of x.
at::Tensor norm(const at::Tensor& x_TD, const NormWeights& weights, const NormSettings& settings,
                at::ScalarType out_dtype);

// The norm of a stream, and the stream for whoever adds to it afterwards, so that the gradients of both meet in the
// norm's backward pass where that is one of fathom's CUDA kernels; elsewhere the stream as it came.
struct NormedStream {
  at::Tensor normed_TD, stream_TD;
};
NormedStream norm_of_stream(const at::Tensor& x_TD, const NormWeights& weights, const NormSettings& settings,
                            at::ScalarType out_dtype);

// What `norm` computes from ATen's elementwise operators; every device, every type; what the tests compare with.
at::Tensor norm_reference(const at::Tensor& x_TD, const NormWeights& weights, const NormSettings& settings,
                          at::ScalarType out_dtype);

}  // namespace fathom::ops
