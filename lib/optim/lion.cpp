// Lion: our kernel on the CPU, ATen's operators one parameter at a time elsewhere.
#include "optim/lion.h"

#include <ATen/ATen.h>

#include "ops/traffic.h"
#include "optim/elements.h"

namespace fathom::optim {
namespace {

// Takes one FP32 tensor of the parameter's shape, and a second one for a gradient that is not FP32.
void update_by_operators(const at::Tensor& parameter, const at::Tensor& momentum, const at::Tensor& gradient,
                         const cpu::LionStep& step) {
  const at::Tensor change = (gradient * (1 - step.beta1)).add_(momentum, step.beta1).sign_();
  momentum.mul_(step.beta2).add_(gradient, 1 - step.beta2);
  parameter.copy_(change.mul_(-step.rate).add_(parameter, step.keep));
}

}  // namespace

Lion::Lion(std::vector<OptimizedParameter> parameters, const LionOptions& options, ledger::Ledger* ledger)
    : Optimizer(ledger), parameters_(std::move(parameters)), options_(options) {
  for (const OptimizedParameter& parameter : parameters_) {
    momenta_.push_back(add_state("exp_avg." + parameter.name, parameter.tensor, parameter.tensor.sizes(), at::kFloat));
  }
}

void Lion::update(double learning_rate, const at::Tensor& gradient_factor) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor &parameter = parameters_[i].tensor, &momentum = momenta_[i];
    const double keep = parameters_[i].decays ? 1 - learning_rate * options_.weight_decay : 1;
    cpu::LionStep step{1, options_.beta1, options_.beta2, keep, learning_rate};
    if (!ops::has_kernel(parameter)) {
      update_by_operators(parameter, momentum, scaled_gradient(parameter, gradient_factor), step);
      continue;
    }
    step.factor = factor_on_host(gradient_factor, parameter);
    const at::Tensor gradient = parameter.grad().contiguous();
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::lion",
                                  ops::traffic(gradient, parameter, parameter.detach(), momentum, momentum.detach()));
    for_elements(parameter, [&](int64_t first, int64_t last) {
      cpu::lion(step, ops::rows(parameter), ops::rows(gradient), momentum.data_ptr<float>(), first, last);
    });
  }
}

}  // namespace fathom::optim
