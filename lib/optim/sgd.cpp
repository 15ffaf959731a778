// Stochastic gradient descent without momentum (Robbins and Monro 1951), as torch.optim.SGD: it keeps nothing between
// steps. Our kernel on the CPU, LibTorch's fused one elsewhere.
#include <ATen/ATen.h>

#include <map>
#include <tuple>

#include "ops/traffic.h"
#include "optim/elements.h"
#include "optim/optimizer.h"

namespace fathom::optim {
namespace {

// All parameters have one type and weight decay.
void update_fused(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
                  double weight_decay, double learning_rate, const at::Tensor& gradient_factor) {
  std::optional<at::Tensor> divisor;
  if (gradient_factor.defined()) divisor = gradient_factor.reciprocal();
  at::_fused_sgd_(parameters, gradients, {}, weight_decay, /*momentum=*/0, learning_rate, /*dampening=*/0,
                  /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false, divisor);
}

class Sgd : public Optimizer {
 public:
  Sgd(const config::RunConfig& run, const std::vector<OptimizedParameter>& parameters, const StatesHome& home)
      : Optimizer(home), weight_decay_(run.weight_decay) {
    for (const OptimizedParameter& each : parameters) add_parameter(each);
  }

 private:
  void update(std::span<const Updated> all, double learning_rate, const at::Tensor& gradient_factor) override;

  double weight_decay_;  // added to the gradient; without momentum that is the same as decoupled decay
};

void Sgd::update(std::span<const Updated> all, double learning_rate, const at::Tensor& gradient_factor) {
  struct Tensors {
    std::vector<at::Tensor> parameters, gradients;
  };
  std::map<std::pair<at::ScalarType, double>, Tensors> others;
  for (const Updated& each : all) {
    const at::Tensor& parameter = each.parameter;
    const double weight_decay = each.decays ? weight_decay_ : 0;
    if (!ops::has_kernel(parameter)) {
      Tensors& group = others[{parameter.scalar_type(), weight_decay}];
      group.parameters.push_back(parameter);
      group.gradients.push_back(each.gradient);
      continue;
    }
    const at::Tensor gradient = each.gradient.contiguous();
    const cpu::SgdStep step{factor_on_host(gradient_factor, parameter), 1 - learning_rate * weight_decay,
                            learning_rate};
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::sgd", ops::traffic(gradient, parameter, parameter.detach()));
    for_elements(parameter, [&](int64_t first, int64_t last) {
      cpu::sgd(step, ops::rows(parameter), ops::rows(gradient), first, last);
    });
  }
  for (const auto& [group, tensors] : others) {
    update_fused(tensors.parameters, tensors.gradients, group.second, learning_rate, gradient_factor);
  }
}

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const config::RunConfig& run, const std::vector<OptimizedParameter>& parameters,
                                    const StatesHome& home) {
  return std::make_unique<Sgd>(run, parameters, home);
}

}  // namespace fathom::optim
