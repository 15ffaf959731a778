// Lion: the sign of a mixture of momentum and gradient (Chen et al. 2023, arXiv 2302.06675), with decoupled weight
// decay. Our kernel on the CPU, ATen's operators one parameter at a time elsewhere.
#include <ATen/ATen.h>

#include "ops/traffic.h"
#include "optim/elements.h"
#include "optim/optimizer.h"

namespace fathom::optim {
namespace {

// It takes one FP32 tensor of the parameter's shape, and a second one for a gradient that is not FP32.
void update_by_operators(const at::Tensor& parameter, const at::Tensor& momentum, const at::Tensor& gradient,
                         const cpu::LionStep& step) {
  const at::Tensor change = (gradient * (1 - step.beta1)).add_(momentum, step.beta1).sign_();
  momentum.mul_(step.beta2).add_(gradient, 1 - step.beta2);
  parameter.copy_(change.mul_(-step.rate).add_(parameter, step.keep));
}

class Lion : public Optimizer {
 public:
  // States: "exp_avg.<parameter>", FP32 whatever the parameter is (what lion_32bit names).
  Lion(const config::RunConfig& run, const std::vector<OptimizedParameter>& parameters, const StatesHome& home)
      : Optimizer(home), beta1_(run.adam_beta1), beta2_(run.adam_beta2), weight_decay_(run.weight_decay) {
    for (const OptimizedParameter& each : parameters) {
      add_parameter(each);
      add_state("exp_avg." + each.name, each.tensor.sizes(), at::kFloat);
    }
  }

 private:
  void update(std::span<const Updated> all, double learning_rate, const at::Tensor& gradient_factor) override;

  double beta1_, beta2_, weight_decay_;
};

void Lion::update(std::span<const Updated> all, double learning_rate, const at::Tensor& gradient_factor) {
  for (const Updated& each : all) {
    const at::Tensor &parameter = each.parameter, &momentum = each.states.at(0);
    const double keep = each.decays ? 1 - learning_rate * weight_decay_ : 1;
    cpu::LionStep step{1, beta1_, beta2_, keep, learning_rate};
    if (!ops::has_kernel(parameter)) {
      update_by_operators(parameter, momentum, scaled_gradient(each.gradient, gradient_factor), step);
      continue;
    }
    step.factor = factor_on_host(gradient_factor, parameter);
    const at::Tensor gradient = each.gradient.contiguous();
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::lion",
                                  ops::traffic(gradient, parameter, parameter.detach(), momentum, momentum.detach()));
    for_elements(parameter, [&](int64_t first, int64_t last) {
      cpu::lion(step, ops::rows(parameter), ops::rows(gradient), momentum.data_ptr<float>(), first, last);
    });
  }
}

}  // namespace

std::unique_ptr<Optimizer> make_lion(const config::RunConfig& run, const std::vector<OptimizedParameter>& parameters,
                                     const StatesHome& home) {
  return std::make_unique<Lion>(run, parameters, home);
}

}  // namespace fathom::optim
