// Where the gradients of a step lie, who adds them up and when they are let go, which depends on who has the
// parameters: this process alone, each of several whole (DDP), or each in shares (FSDP); or they do not stay at all
// (updates_in_backward.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/group.h"
#include "dist/sharded_parameters.h"
#include "ledger/ledger.h"
#include "model/parameters.h"
#include "optim/gradient_norm.h"

namespace fathom::train {

// Of trained parameters, which live as long as this.
class GradientKeeper {
 public:
  using Round = dist::ShardedParameters::Round;

  explicit GradientKeeper(const std::vector<model::Parameter>& trained) : trained_(trained) {}
  virtual ~GradientKeeper() = default;
  GradientKeeper(const GradientKeeper&) = delete;
  GradientKeeper& operator=(const GradientKeeper&) = delete;

  // Before the passes of a step.
  virtual void begin_step(double /*learning_rate*/) {}
  // Before the passes of the last micro-batch that this process has in a step; where it has none, before `finish`.
  virtual void expect_last() {}
  // Around the forward and backward pass of a micro-batch, which is this one of all processes' rounds.
  virtual void begin_passes(const Round& /*round*/) {}
  virtual void end_passes() {}
  // After the passes of all micro-batches here.
  virtual void finish() {}
  // Whether a round that this process has no micro-batch for needs it all the same, and what it then does.
  virtual bool takes_every_round() const { return false; }
  virtual void idle_round(const Round& /*round*/) {}

  // Of all gradients of the step, as optim::gradient_norm.
  virtual optim::GradientNorm norm(double max_norm, std::optional<double> loss_scale) const;
  // Whether the weights are those after the step as soon as the backward pass ends.
  virtual bool updates_in_backward() const { return false; }
  // Whose gradient is the first, in the order of parameters, that is not finite; empty: none here.
  virtual std::string first_not_finite() const;
  // After the update.
  virtual void clear() = 0;

 protected:
  std::vector<at::Tensor> gradients() const;
  const std::vector<model::Parameter>& trained() const { return trained_; }

 private:
  const std::vector<model::Parameter>& trained_;
};

// Of a process alone.
std::unique_ptr<GradientKeeper> own_gradients(const std::vector<model::Parameter>& trained, ledger::Ledger& ledger);
// Of one of several processes that each have all parameters: dist/gradient_buckets.h.
std::unique_ptr<GradientKeeper> gradients_in_buckets(const std::vector<model::Parameter>& trained, dist::Group& group,
                                                     ledger::Ledger& ledger);
// Of one that has shares of the parameters. sharded lives as long as this.
std::unique_ptr<GradientKeeper> gradients_in_shares(const std::vector<model::Parameter>& trained,
                                                    dist::ShardedParameters& sharded);

}  // namespace fathom::train
