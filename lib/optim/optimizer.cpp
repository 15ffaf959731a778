// What optimizers share, and the choice between them.
#include "optim/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "optim/mixed_adamw.h"

namespace fathom::optim {

void Optimizer::step(double learning_rate, const at::Tensor& gradient_factor) {
  const at::NoGradGuard no_gradients;
  set_steps(steps_ + 1);
  update(learning_rate, gradient_factor);
}

at::Tensor Optimizer::add_state(const std::string& name, const at::Tensor& parameter, at::IntArrayRef sizes,
                                at::ScalarType dtype, int64_t block) {
  at::Tensor tensor = at::zeros(sizes, at::TensorOptions().device(parameter.device()).dtype(dtype));
  claim(tensor, name);
  state_.emplace_back(name, tensor);
  state_blocks_.push_back(block);
  return tensor;
}

void Optimizer::claim(const at::Tensor& tensor, const std::string& name) {
  if (ledger_ != nullptr) ledger_->claim(tensor, memory::Component::kOptimizerStates, name);
}

void Optimizer::repeat(uint64_t kind, const ledger::Ledger::Work& work) const {
  if (ledger_ != nullptr) {
    ledger_->repeat(kind, work);
  } else {
    work();
  }
}

std::unique_ptr<Optimizer> make_optimizer(const config::RunConfig& config, std::vector<OptimizedParameter> parameters,
                                          ledger::Ledger* ledger) {
  const AdamWOptions adamw{config.adam_beta1, config.adam_beta2, config.adam_epsilon, config.weight_decay};
  const footprint::MomentStorage moments = footprint::moment_storage(config.optim, config.master_weights);
  switch (config.optim) {
    case config::Optimizer::kSgd:
      return make_sgd(config, std::move(parameters), ledger);
    case config::Optimizer::kAdafactor:
      return make_adafactor(config, std::move(parameters), ledger);
    case config::Optimizer::kLion:
      return make_lion(config, std::move(parameters), ledger);
    case config::Optimizer::kAdamW:
    case config::Optimizer::kAdamW8bit:
    case config::Optimizer::kAdamWBf16:
      break;
  }
  if (moments == footprint::MomentStorage::kAsWeights)
    return std::make_unique<AdamW>(std::move(parameters), adamw, ledger);
  const MixedAdamWOptions mixed{adamw, moments, config.master_weights, static_cast<uint64_t>(config.seed)};
  return std::make_unique<MixedAdamW>(parameters, mixed, ledger);
}

double factor_on_host(const at::Tensor& gradient_factor, const at::Tensor& parameter) {
  return gradient_factor.defined() && parameter.is_cpu() ? *gradient_factor.const_data_ptr<float>() : 1;
}

at::Tensor scaled_gradient(const at::Tensor& parameter, const at::Tensor& gradient_factor) {
  at::Tensor gradient = parameter.grad().to(at::kFloat);
  return gradient_factor.defined() ? gradient.mul_(gradient_factor) : gradient;
}

}  // namespace fathom::optim
