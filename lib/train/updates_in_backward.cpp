// A hook behind the accumulation of each parameter's gradient.
#include "train/updates_in_backward.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace fathom::train {

class UpdatesInBackward::Hook : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(UpdatesInBackward& updates, size_t index) : updates_(updates), index_(index) {}
  void operator()(const at::Tensor& /*parameter*/) override { updates_.update(index_); }

 private:
  UpdatesInBackward& updates_;
  size_t index_;
};

UpdatesInBackward::UpdatesInBackward(optim::Optimizer& optimizer, const std::vector<model::Parameter>& trained,
                                     ledger::Ledger& ledger)
    : GradientKeeper(trained), optimizer_(optimizer), ledger_(ledger) {
  for (size_t i = 0; i < trained.size(); ++i) {
    torch::autograd::impl::set_post_acc_grad_hooks(trained[i].tensor, std::make_unique<Hook>(*this, i));
  }
}

UpdatesInBackward::~UpdatesInBackward() {
  for (const model::Parameter& parameter : trained()) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameter.tensor, nullptr);
  }
}

void UpdatesInBackward::begin_step(double learning_rate) {
  learning_rate_ = learning_rate;
  norm_.emplace(trained().size());
  optimizer_.begin_step();
}

optim::GradientNorm UpdatesInBackward::norm(double /*max_norm*/, std::optional<double> /*loss_scale*/) const {
  return {norm_->total(), {}};
}

void UpdatesInBackward::update(size_t index) {
  const model::Parameter& parameter = trained()[index];
  const at::Tensor& gradient = parameter.tensor.grad();
  ledger_.claim(gradient, memory::Component::kGradients, parameter.name);
  norm_->add(index, gradient);
  optimizer_.step_of(index, learning_rate_);
}

std::string UpdatesInBackward::first_not_finite() const {
  const std::optional<size_t> first = norm_->first_not_finite();
  return first ? trained()[*first].name : "";
}

}  // namespace fathom::train
