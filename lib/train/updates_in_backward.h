// Updates within the backward pass (config optimizer_in_backward): each parameter as soon as its gradient is there,
// which is let go at once, so that those of all parameters are never there together (Lv et al. 2023, arXiv 2306.09782,
// did so with SGD).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "optim/optimizer.h"
#include "train/gradient_keeper.h"

namespace fathom::train {

class UpdatesInBackward final : public GradientKeeper {
 public:
  // trained: what the optimizer was made of, in its order. All three live as long as this.
  UpdatesInBackward(optim::Optimizer& optimizer, const std::vector<model::Parameter>& trained, ledger::Ledger& ledger);
  ~UpdatesInBackward() override;

  // The backward pass of the step gives each parameter its gradient once.
  void begin_step(double learning_rate) override;
  // Without a factor: there is nothing left to scale.
  optim::GradientNorm norm(double max_norm, std::optional<double> loss_scale) const override;
  bool updates_in_backward() const override { return true; }
  std::string first_not_finite() const override;
  void clear() override {}

 private:
  class Hook;
  void update(size_t index);

  optim::Optimizer& optimizer_;
  ledger::Ledger& ledger_;
  double learning_rate_ = 0;
  std::optional<optim::RunningNorm> norm_;
};

}  // namespace fathom::train
