// Sinks of attention: a number for each head that takes part in the softmax over a query's scores, and has no value
// (gpt-oss learns them; Xiao et al. 2023, arXiv 2309.17453, tell of the sinks that models make themselves).
//
// Of scores s and a sink a the probabilities are p_j = e^(s_j - l') with l' = log(sum of e^s + e^a). With l the
// log-sum-exp of the scores alone and o = softmax(s) v, p v is o' = o e^(l - l'). A fused kernel's backward pass makes
// its probabilities again from a log-sum-exp and takes from each of their gradients its output times the gradient of
// that: given o' and l' for o and l it makes the gradients of queries, keys and values under sinks. That of a is
// -(sum over queries of e^(a - l') (o' times its gradient)), since a sink's value is 0.
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::ops {

// What a kernel made without sinks becomes what it is with them, in place: out_THE, with any dimensions before H, and
// logsumexp_TH in FP32, a view.
void add_sinks(const at::Tensor& out_THE, const at::Tensor& logsumexp_TH, const at::Tensor& sinks_H);

// [H], of the type of the sinks, from output and log-sum-exp with sinks.
at::Tensor gradient_of_sinks(const at::Tensor& grad_out_THE, const at::Tensor& out_THE, const at::Tensor& logsumexp_TH,
                             const at::Tensor& sinks_H);

}  // namespace fathom::ops
