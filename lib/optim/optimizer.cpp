// What optimizers share, and the choice between them.
#include "optim/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "footprint/offload.h"
#include "optim/mixed_adamw.h"

namespace fathom::optim {

void Optimizer::step(double learning_rate, const at::Tensor& gradient_factor) {
  const at::NoGradGuard no_gradients;
  begin_step();
  std::vector<Updated> here;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (is_staged(i)) continue;
    here.push_back(parameters_[i]);
    here.back().gradient = here.back().parameter.grad();
  }
  if (!here.empty()) update(here, learning_rate, gradient_factor);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (is_staged(i)) update_staged(i, parameters_[i].parameter.grad(), learning_rate, gradient_factor);
  }
}

void Optimizer::begin_step() {
  const at::NoGradGuard no_gradients;
  set_steps(steps_ + 1);
  if (staging_) staging_->begin_step();
}

void Optimizer::update_staged(size_t index, const at::Tensor& gradient, double learning_rate,
                              const at::Tensor& gradient_factor) {
  staging_->update(static_cast<size_t>(staged_[index]), gradient, [&](const Updated& piece) {
    update({&piece, 1}, learning_rate, gradient_factor);
  });
}

void Optimizer::step_of(size_t index, double learning_rate) {
  const at::NoGradGuard no_gradients;
  Updated updated = parameters_.at(index);
  updated.gradient = std::move(updated.parameter.mutable_grad());
  if (is_staged(index)) return update_staged(index, updated.gradient, learning_rate, {});
  update({&updated, 1}, learning_rate, {});
}

void Optimizer::take_staging(bool backwards) {
  std::vector<Updated> staged;
  staged_.assign(parameters_.size(), -1);
  for (size_t turn = 0; turn < parameters_.size(); ++turn) {
    const size_t i = backwards ? parameters_.size() - 1 - turn : turn;
    const Updated& each = parameters_[i];
    if (each.states.empty() || !lies_on_host(each.parameter)) continue;
    staged_[i] = std::ssize(staged);
    staged.push_back(each);
  }
  if (!staged.empty()) staging_.emplace(std::move(staged), parameters_.front().parameter.device(), home_.ledger);
}

void Optimizer::wait() const {
  if (staging_) staging_->wait();
}

bool Optimizer::lies_on_host(const at::Tensor& parameter) const {
  return home_.host_memory && footprint::is_offloaded(parameter.numel());
}

void Optimizer::add_parameter(const OptimizedParameter& parameter) {
  Updated added;
  added.parameter = parameter.tensor;
  added.decays = parameter.decays;
  added.place = std::ssize(parameters_);
  if (parameter.whole) added.place = parameter.whole->place;
  if (parameter.whole) added.origin = parameter.whole->first;
  parameters_.push_back(std::move(added));
}

void Optimizer::add_state(const std::string& name, at::IntArrayRef sizes, at::ScalarType dtype, int64_t block) {
  Updated& owner = parameters_.back();
  at::Tensor tensor;
  if (lies_on_host(owner.parameter)) {
    const int64_t bytes = c10::multiply_integers(sizes) * static_cast<int64_t>(c10::elementSize(dtype));
    tensor = home_.host_memory(bytes).view(dtype).view(sizes);
    host_bytes_ += bytes;
  } else {
    tensor = at::zeros(sizes, at::TensorOptions().device(owner.parameter.device()).dtype(dtype));
    claim(tensor, name);
  }
  state_.emplace_back(name, tensor);
  state_blocks_.push_back(block);
  owner.states.push_back(std::move(tensor));
  owner.blocks.push_back(block);
}

void Optimizer::claim(const at::Tensor& tensor, const std::string& name) {
  if (home_.ledger != nullptr) home_.ledger->claim(tensor, memory::Component::kOptimizerStates, name);
}

void Optimizer::repeat(uint64_t kind, const ledger::Ledger::Work& work) const {
  if (home_.ledger != nullptr) {
    home_.ledger->repeat(kind, work);
  } else {
    work();
  }
}

namespace {

std::unique_ptr<Optimizer> make(const config::RunConfig& config, const std::vector<OptimizedParameter>& parameters,
                                const StatesHome& home) {
  const AdamWOptions adamw{config.adam_beta1, config.adam_beta2, config.adam_epsilon, config.weight_decay};
  const footprint::MomentStorage moments = footprint::moment_storage(config.optim, config.master_weights);
  switch (config.optim) {
    case config::Optimizer::kSgd:
      return make_sgd(config, parameters, home);
    case config::Optimizer::kAdafactor:
      return make_adafactor(config, parameters, home);
    case config::Optimizer::kLion:
      return make_lion(config, parameters, home);
    case config::Optimizer::kAdamW:
    case config::Optimizer::kAdamW8bit:
    case config::Optimizer::kAdamWBf16:
      break;
  }
  const bool by_cuda_kernels =
      !parameters.empty() && ops::cuda_kernels_for(parameters.front().tensor) != nullptr;  // they take any storage
  if (moments == footprint::MomentStorage::kAsWeights && !by_cuda_kernels) {
    return std::make_unique<AdamW>(parameters, adamw, home);
  }
  const MixedAdamWOptions mixed{adamw, moments, config.master_weights, static_cast<uint64_t>(config.seed)};
  return std::make_unique<MixedAdamW>(parameters, mixed, home);
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const config::RunConfig& config,
                                          const std::vector<OptimizedParameter>& parameters, const StatesHome& home) {
  std::unique_ptr<Optimizer> optimizer = make(config, parameters, home);
  optimizer->take_staging(config.optimizer_in_backward);
  return optimizer;
}

double factor_on_host(const at::Tensor& gradient_factor, const at::Tensor& parameter) {
  return gradient_factor.defined() && parameter.is_cpu() ? *gradient_factor.const_data_ptr<float>() : 1;
}

at::Tensor scaled_gradient(const at::Tensor& gradient, const at::Tensor& gradient_factor) {
  at::Tensor wide = gradient.to(at::kFloat);
  return gradient_factor.defined() ? wide.mul_(gradient_factor) : wide;
}

}  // namespace fathom::optim
