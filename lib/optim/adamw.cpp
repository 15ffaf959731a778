// AdamW over parameter groups with and without weight decay, and gradient clipping.
#include "optim/adamw.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "ops/rows.h"
#include "ops/traffic.h"

namespace fathom::optim {
namespace {

constexpr int64_t kElementsPerTask = 65536;

// Shares of fixed size, added in order: the same bits for any number of threads.
double sum_of_squares(const at::Tensor& contiguous) {
  std::vector<double> sums((contiguous.numel() + kElementsPerTask - 1) / kElementsPerTask);
  at::parallel_for(0, static_cast<int64_t>(sums.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t end = std::min((i + 1) * kElementsPerTask, contiguous.numel());
      sums[i] = ops::kernels::sum_of_squares(ops::rows(contiguous), i * kElementsPerTask, end);
    }
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

// The 2-norm of all gradients together, in FP32. LibTorch's norm of a BF16 tensor in FP32 would widen all of it first.
at::Tensor total_norm(const std::vector<at::Tensor>& gradients) {
  const bool by_kernel = std::all_of(gradients.begin(), gradients.end(), [](const at::Tensor& gradient) {
    return ops::has_kernel(gradient) && gradient.is_contiguous();
  });
  if (!by_kernel) return at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2, at::kFloat)), 2);
  at::Tensor total = at::empty({}, gradients.front().options().dtype(at::kFloat));
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::total_norm", ops::traffic(gradients));
  if (!total.is_cpu()) return total;
  double sum = 0;
  for (const at::Tensor& gradient : gradients) sum += sum_of_squares(gradient);
  *total.data_ptr<float>() = static_cast<float>(std::sqrt(sum));
  return total;
}

}  // namespace

AdamW::AdamW(std::vector<OptimizedParameter> parameters, const AdamWOptions& options, ledger::Ledger* ledger)
    : parameters_(std::move(parameters)), options_(options) {
  auto claim = [&](const at::Tensor& tensor, const std::string& name) {
    if (ledger != nullptr) ledger->claim(tensor, ledger::Component::kOptimizerStates, name);
  };
  if (parameters_.empty()) return;
  // The fused kernel reads a count for each parameter; all of them are equal, so they share one.
  steps_tensor_ = at::zeros({}, at::TensorOptions().device(parameters_.front().tensor.device()).dtype(at::kFloat));
  claim(steps_tensor_, "step");
  for (const OptimizedParameter& parameter : parameters_) {
    const at::ScalarType dtype = parameter.tensor.scalar_type();
    const double weight_decay = parameter.decays ? options_.weight_decay : 0;
    auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& candidate) {
      return candidate.weight_decay == weight_decay && candidate.parameters.front().scalar_type() == dtype;
    });
    if (group == groups_.end()) {
      groups_.push_back({});
      group = groups_.end() - 1;
      group->weight_decay = weight_decay;
    }
    group->parameters.push_back(parameter.tensor);
    group->first_moments.push_back(at::zeros_like(parameter.tensor.detach()));
    claim(group->first_moments.back(), "exp_avg." + parameter.name);
    group->second_moments.push_back(at::zeros_like(parameter.tensor.detach()));
    claim(group->second_moments.back(), "exp_avg_sq." + parameter.name);
    group->steps.push_back(steps_tensor_);
    state_.emplace_back("exp_avg." + parameter.name, group->first_moments.back());
    state_.emplace_back("exp_avg_sq." + parameter.name, group->second_moments.back());
  }
}

void AdamW::step(double learning_rate) {
  if (parameters_.empty()) return;
  const at::NoGradGuard no_gradients;
  set_steps(steps_ + 1);
  for (Group& group : groups_) {
    std::vector<at::Tensor> gradients;
    gradients.reserve(group.parameters.size());
    for (const at::Tensor& parameter : group.parameters) gradients.push_back(parameter.grad());
    at::_fused_adamw_(group.parameters, gradients, group.first_moments, group.second_moments, {}, group.steps,
                      learning_rate, options_.beta1, options_.beta2, group.weight_decay, options_.epsilon,
                      /*amsgrad=*/false,
                      /*maximize=*/false);
  }
}

std::vector<std::pair<std::string, at::Tensor>> AdamW::state() const { return state_; }

int64_t AdamW::steps() const { return steps_; }

void AdamW::set_steps(int64_t steps) {
  steps_ = steps;
  if (steps_tensor_.defined()) steps_tensor_.fill_(static_cast<double>(steps));
}

at::Tensor clip_gradients(const std::vector<at::Tensor>& gradients, double max_norm) {
  if (gradients.empty()) throw Error("there are no gradients to clip", "train at least one parameter");
  const at::NoGradGuard no_gradients;
  const at::Tensor total = total_norm(gradients);
  if (max_norm > 0) {
    // Always multiplied, also by 1, as PyTorch does: whether to clip is never read back from the device.
    const at::Tensor factor = at::clamp_max((total + 1e-6).reciprocal_().mul_(max_norm), 1);
    at::_foreach_mul_(gradients, factor);
  }
  return total;
}

}  // namespace fathom::optim
