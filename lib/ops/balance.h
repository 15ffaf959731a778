// What is added to the loss where routers prefer some experts (Fedus et al. 2021, arXiv 2101.03961, equations 4 to 6),
// as transformers computes it: over all tokens of all layers at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace fathom::ops {

// Of one pass. Its routers tell it their probabilities; what these have of its gradient depends on all of them, so that
// it is known only once the loss is complete.
class Balance : public std::enable_shared_from_this<Balance> {
 public:
  // experts: of each router. real_T: FP32, 1 for tokens that count and 0 for padding; undefined: all count.
  Balance(double coefficient, int64_t experts, at::Tensor real_T);

  // A router's, [T, N] in FP32 and int64 [T, K]. Once the loss is complete nothing is added: what comes then was
  // computed again.
  void add(const at::Tensor& probabilities_TN, const at::Tensor& chosen_TK);
  // loss + share * coefficient * N * the sum over experts of (how often it was chosen for a token) * (its mean
  // probability). gradient_scale: as LossTargets has it.
  at::Tensor complete(const at::Tensor& loss, double share, double gradient_scale);
  // Of the complete loss by a router's probabilities, [T, N].
  at::Tensor gradient_TN() const;
  // What is added to the loss, before its share; known once that is complete.
  const at::Tensor& value() const { return value_; }
  // Called by the backward pass of what `complete` returned.
  void begin_backward(const at::Tensor& gradient);

 private:
  double coefficient_, factor_ = 0;
  int64_t experts_;
  at::Tensor real_T_, chosen_N_, probabilities_N_, rows_, gradient_N_, value_;
  int64_t tokens_ = 0;
};

}  // namespace fathom::ops
