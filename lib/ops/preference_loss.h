// Losses of preferences: of the log-probabilities of two answers to a prompt.
#pragma once

#include <ATen/core/Tensor.h>

#include "config/objective.h"

namespace fathom::ops {

struct PreferenceOptions {
  config::Objective objective = config::Objective::kDpo;
  config::LossType type = config::LossType::kSigmoid;  // of dpo
  double beta = 0.1;
  double label_smoothing = 0;
  double simpo_gamma = 0;
};

struct PreferenceLoss {
  at::Tensor loss;       // an FP32 scalar: the sum over preferences divided by `denominator`
  at::Tensor numbers_K;  // FP32, without gradients, sums over preferences: report::kPreferenceNumbers
};

// logps_B: of answers, those of a preference one behind the other, the chosen one first; FP32. reference_B: the same of
// the reference, which simpo does not read. lengths_B: tokens of each answer that count, FP32.
PreferenceLoss preference_loss(const at::Tensor& logps_B, const at::Tensor& reference_B, const at::Tensor& lengths_B,
                               double denominator, const PreferenceOptions& options);

}  // namespace fathom::ops
