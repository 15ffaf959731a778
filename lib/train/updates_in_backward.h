// Updates within the backward pass (config optimizer_in_backward): each parameter as soon as its gradient is there,
// which is let go at once, so that those of all parameters are never there together (Lv et al. 2023, arXiv 2306.09782,
// did so with SGD).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ledger/ledger.h"
#include "model/parameters.h"
#include "optim/gradient_norm.h"
#include "optim/optimizer.h"

namespace fathom::train {

class UpdatesInBackward {
 public:
  // trained: what the optimizer was made of, in its order. All three live as long as this.
  UpdatesInBackward(optim::Optimizer& optimizer, const std::vector<model::Parameter>& trained, ledger::Ledger& ledger);
  ~UpdatesInBackward();
  UpdatesInBackward(const UpdatesInBackward&) = delete;
  UpdatesInBackward& operator=(const UpdatesInBackward&) = delete;

  // Before the backward pass of a step, which gives each parameter its gradient once.
  void begin_step(double learning_rate);
  // After it: of all gradients that there were, an FP32 scalar on the device.
  at::Tensor norm() const { return norm_->total(); }
  // Whose gradient was the first, in the order of parameters, that is not finite; empty: none.
  std::string first_not_finite() const;

 private:
  class Hook;
  void update(size_t index);

  optim::Optimizer& optimizer_;
  const std::vector<model::Parameter>& trained_;
  ledger::Ledger& ledger_;
  double learning_rate_ = 0;
  std::optional<optim::RunningNorm> norm_;
};

}  // namespace fathom::train
