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

AdamW::AdamW(const std::vector<OptimizedParameter>& parameters, const AdamWOptions& options, const StatesHome& home)
    : Optimizer(home), options_(options) {
  if (parameters.empty()) return;
  const at::Tensor& first = parameters.front().tensor;
  if (!ops::has_kernel(first)) {
    // The fused kernel reads a count for each parameter; all of them are equal, so they share one.
    steps_tensor_ = at::zeros({}, at::TensorOptions().device(first.device()).dtype(at::kFloat));
    claim(steps_tensor_, "step");
  }
  for (const OptimizedParameter& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    add_parameter(parameter);
    for (const char* moment : {"exp_avg.", "exp_avg_sq."}) {
      add_state(moment + parameter.name, tensor.sizes(), tensor.scalar_type());
    }
  }
}

void AdamW::update_by_kernel(const Updated& updated, double learning_rate, const at::Tensor& gradient_factor) const {
  const at::Tensor &parameter = updated.parameter, &m = updated.states.at(0), &v = updated.states.at(1);
  const at::Tensor gradient = updated.gradient.contiguous();
  cpu::AdamWStep step = adamw_step(options_, steps(), learning_rate, weight_decay(updated));
  step.factor = factor_on_host(gradient_factor, parameter);
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::adamw",
                                ops::traffic(gradient, parameter, parameter.detach(), m, m.detach(), v, v.detach()));
  for_elements(parameter, [&](int64_t first, int64_t last) {
    cpu::adamw(step, ops::rows(parameter), ops::rows(gradient), ops::rows(m), ops::rows(v), first, last);
  });
}

// LibTorch's multi-tensor kernel takes tensors of one type and weight decay.
void AdamW::update_fused(std::span<const Updated> all, double learning_rate, const at::Tensor& gradient_factor) const {
  struct Group {
    at::ScalarType type;
    bool decays;
    std::vector<at::Tensor> parameters, gradients, first_moments, second_moments;
  };
  std::vector<Group> groups;
  for (const Updated& each : all) {
    const at::ScalarType type = each.parameter.scalar_type();
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& candidate) {
      return candidate.type == type && candidate.decays == each.decays;
    });
    if (group == groups.end()) group = groups.insert(groups.end(), Group{type, each.decays, {}, {}, {}, {}});
    group->parameters.push_back(each.parameter);
    group->gradients.push_back(each.gradient);
    group->first_moments.push_back(each.states.at(0));
    group->second_moments.push_back(each.states.at(1));
  }
  std::optional<at::Tensor> divisor;
  if (gradient_factor.defined()) divisor = gradient_factor.reciprocal();
  for (const Group& group : groups) {
    const std::vector<at::Tensor> counts(group.parameters.size(), steps_tensor_);
    at::_fused_adamw_(group.parameters, group.gradients, group.first_moments, group.second_moments, {}, counts,
                      learning_rate, options_.beta1, options_.beta2, group.decays ? options_.weight_decay : 0,
                      options_.epsilon, /*amsgrad=*/false, /*maximize=*/false, divisor);
  }
}

void AdamW::update(std::span<const Updated> all, double learning_rate, const at::Tensor& gradient_factor) {
  if (steps_tensor_.defined()) return update_fused(all, learning_rate, gradient_factor);
  for (const Updated& each : all) update_by_kernel(each, learning_rate, gradient_factor);
}

void AdamW::set_steps(int64_t steps) {
  Optimizer::set_steps(steps);
  if (steps_tensor_.defined()) steps_tensor_.fill_(static_cast<double>(steps));
}

}  // namespace fathom::optim
