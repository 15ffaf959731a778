// Each way by what keeps its gradients.
#include "train/gradient_keeper.h"

#include "dist/gradient_buckets.h"
#include "memory/component.h"
#include "train/finite.h"

namespace fathom::train {
namespace {

class OwnGradients final : public GradientKeeper {
 public:
  OwnGradients(const std::vector<model::Parameter>& trained, ledger::Ledger& ledger)
      : GradientKeeper(trained), ledger_(ledger) {}

  void end_passes() override {
    for (const model::Parameter& parameter : trained()) {
      ledger_.claim(parameter.tensor.grad(), memory::Component::kGradients, parameter.name);
    }
  }
  void clear() override {
    for (const model::Parameter& parameter : trained()) parameter.tensor.mutable_grad().reset();
  }

 private:
  ledger::Ledger& ledger_;
};

std::vector<at::Tensor> tensors_of(const std::vector<model::Parameter>& parameters) {
  std::vector<at::Tensor> tensors;
  for (const model::Parameter& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

class GradientsInBuckets final : public GradientKeeper {
 public:
  GradientsInBuckets(const std::vector<model::Parameter>& trained, dist::Group& group, ledger::Ledger& ledger)
      : GradientKeeper(trained), buckets_(group, tensors_of(trained)) {
    for (const dist::Group::Sum& sum : buckets_.sums()) {
      ledger.claim(sum.tensor, memory::Component::kGradients, "a bucket of gradients");
      ledger.claim(sum.staging, memory::Component::kFunctionality, "gradients of other processes");
    }
  }

  void expect_last() override { buckets_.expect_last(); }
  void finish() override { buckets_.finish(); }
  void clear() override { buckets_.clear(); }

 private:
  dist::GradientBuckets buckets_;
};

class GradientsInShares final : public GradientKeeper {
 public:
  GradientsInShares(const std::vector<model::Parameter>& trained, dist::ShardedParameters& sharded)
      : GradientKeeper(trained), sharded_(sharded) {}

  void begin_passes(const Round& round) override { sharded_.begin_round(round); }
  void end_passes() override { sharded_.end_round(); }
  bool takes_every_round() const override { return true; }
  void idle_round(const Round& round) override { sharded_.idle_round(round); }
  optim::GradientNorm norm(double max_norm, std::optional<double> loss_scale) const override {
    return optim::gradient_norm(gradients(), max_norm, loss_scale,
                                [this](double share) { return sharded_.sum(share); });
  }
  void clear() override { sharded_.clear_gradients(); }

 private:
  dist::ShardedParameters& sharded_;
};

}  // namespace

optim::GradientNorm GradientKeeper::norm(double max_norm, std::optional<double> loss_scale) const {
  return optim::gradient_norm(gradients(), max_norm, loss_scale);
}

std::string GradientKeeper::first_not_finite() const {
  for (const model::Parameter& parameter : trained_) {
    if (!is_finite(parameter.tensor.grad())) return parameter.name;
  }
  return "";
}

std::vector<at::Tensor> GradientKeeper::gradients() const {
  std::vector<at::Tensor> gradients;
  for (const model::Parameter& parameter : trained_) gradients.push_back(parameter.tensor.grad());
  return gradients;
}

std::unique_ptr<GradientKeeper> own_gradients(const std::vector<model::Parameter>& trained, ledger::Ledger& ledger) {
  return std::make_unique<OwnGradients>(trained, ledger);
}

std::unique_ptr<GradientKeeper> gradients_in_buckets(const std::vector<model::Parameter>& trained, dist::Group& group,
                                                     ledger::Ledger& ledger) {
  return std::make_unique<GradientsInBuckets>(trained, group, ledger);
}

std::unique_ptr<GradientKeeper> gradients_in_shares(const std::vector<model::Parameter>& trained,
                                                    dist::ShardedParameters& sharded) {
  return std::make_unique<GradientsInShares>(trained, sharded);
}

}  // namespace fathom::train
