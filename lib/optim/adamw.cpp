// AdamW over parameter groups with and without weight decay.
#include "optim/adamw.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "ops/traffic.h"
#include "optim/elements.h"

namespace fathom::optim {

cpu::AdamWStep adamw_step(const AdamWOptions& options, int64_t count, double learning_rate, double weight_decay) {
  const auto power = static_cast<double>(count);
  cpu::AdamWStep step;
  step.beta1 = options.beta1;
  step.beta2 = options.beta2;
  step.epsilon = options.epsilon;
  step.keep = 1 - learning_rate * weight_decay;
  step.rate = learning_rate / (1 - std::pow(options.beta1, power));
  step.root_second = std::sqrt(1 - std::pow(options.beta2, power));
  return step;
}

AdamW::AdamW(std::vector<OptimizedParameter> parameters, const AdamWOptions& options, ledger::Ledger* ledger)
    : Optimizer(ledger), options_(options) {
  if (parameters.empty()) return;
  const at::Tensor& first = parameters.front().tensor;
  if (!ops::has_kernel(first)) {
    // The fused kernel reads a count for each parameter; all of them are equal, so they share one.
    steps_tensor_ = at::zeros({}, at::TensorOptions().device(first.device()).dtype(at::kFloat));
    claim(steps_tensor_, "step");
  }
  for (const OptimizedParameter& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    Group& group = group_of(parameter);
    group.parameters.push_back(tensor);
    const auto moment = [&](const char* name) {
      return add_state(name + parameter.name, tensor, tensor.sizes(), tensor.scalar_type());
    };
    group.first_moments.push_back(moment("exp_avg."));
    group.second_moments.push_back(moment("exp_avg_sq."));
    group.steps.push_back(steps_tensor_);
  }
}

AdamW::Group& AdamW::group_of(const OptimizedParameter& parameter) {
  const double weight_decay = parameter.decays ? options_.weight_decay : 0;
  const auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& candidate) {
    return candidate.weight_decay == weight_decay &&
           candidate.parameters.front().scalar_type() == parameter.tensor.scalar_type();
  });
  if (group != groups_.end()) return *group;
  groups_.push_back({});
  groups_.back().weight_decay = weight_decay;
  return groups_.back();
}

void AdamW::update_by_kernel(Group& group, double learning_rate, const at::Tensor& gradient_factor) const {
  cpu::AdamWStep step = adamw_step(options_, steps(), learning_rate, group.weight_decay);
  for (size_t i = 0; i < group.parameters.size(); ++i) {
    const at::Tensor &parameter = group.parameters[i], &m = group.first_moments[i], &v = group.second_moments[i];
    const at::Tensor gradient = parameter.grad().contiguous();
    step.factor = factor_on_host(gradient_factor, parameter);
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::adamw",
                                  ops::traffic(gradient, parameter, parameter.detach(), m, m.detach(), v, v.detach()));
    for_elements(parameter, [&](int64_t first, int64_t last) {
      cpu::adamw(step, ops::rows(parameter), ops::rows(gradient), ops::rows(m), ops::rows(v), first, last);
    });
  }
}

void AdamW::update(double learning_rate, const at::Tensor& gradient_factor) {
  std::optional<at::Tensor> divisor;
  for (Group& group : groups_) {
    if (ops::has_kernel(group.parameters.front())) {
      update_by_kernel(group, learning_rate, gradient_factor);
      continue;
    }
    if (gradient_factor.defined() && !divisor) divisor = gradient_factor.reciprocal();
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : group.parameters) gradients.push_back(parameter.grad());
    at::_fused_adamw_(group.parameters, gradients, group.first_moments, group.second_moments, {}, group.steps,
                      learning_rate, options_.beta1, options_.beta2, group.weight_decay, options_.epsilon,
                      /*amsgrad=*/false, /*maximize=*/false, divisor);
  }
}

void AdamW::set_steps(int64_t steps) {
  Optimizer::set_steps(steps);
  if (steps_tensor_.defined()) steps_tensor_.fill_(static_cast<double>(steps));
}

}  // namespace fathom::optim
