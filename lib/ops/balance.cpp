// Two sums over all routers, and a node of the loss that learns how large its gradient is before any router asks.
#include "ops/balance.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace fathom::ops {
namespace {

struct Handle : torch::CustomClassHolder {
  std::shared_ptr<Balance> balance;
};

struct WithBalance : torch::autograd::Function<WithBalance> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& loss, const at::Tensor& added,
                            const c10::intrusive_ptr<Handle>& handle) {
    context->saved_data["balance"] = c10::IValue::make_capsule(handle);
    return loss + added;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto handle = c10::static_intrusive_pointer_cast<Handle>(context->saved_data["balance"].toCapsule());
    handle->balance->begin_backward(gradients[0]);
    return {gradients[0], at::Tensor(), at::Tensor()};
  }
};

}  // namespace

Balance::Balance(double coefficient, int64_t experts, at::Tensor real_T)
    : coefficient_(coefficient), experts_(experts), real_T_(std::move(real_T)) {}

void Balance::add(const at::Tensor& probabilities_TN, const at::Tensor& chosen_TK) {
  if (value_.defined()) return;
  const auto options = probabilities_TN.options();
  if (!chosen_N_.defined()) {
    chosen_N_ = at::zeros({experts_}, options);
    probabilities_N_ = at::zeros({experts_}, options);
    if (real_T_.defined()) rows_ = at::zeros({}, options);
  }
  const int64_t tokens = chosen_TK.size(0);
  const at::Tensor counted = real_T_.defined() ? real_T_ : at::ones({tokens}, options);
  chosen_N_.scatter_add_(0, chosen_TK.reshape({-1}), counted.unsqueeze(1).expand_as(chosen_TK).reshape({-1}));
  if (real_T_.defined()) {
    probabilities_N_.add_((probabilities_TN * real_T_.unsqueeze(1)).sum(0));
    rows_.add_(real_T_.sum());
  } else {
    probabilities_N_.add_(probabilities_TN.sum(0));
    tokens_ += tokens;
  }
}

at::Tensor Balance::complete(const at::Tensor& loss, double share, double gradient_scale) {
  if (!chosen_N_.defined()) return loss;
  const at::Tensor rows = rows_.defined() ? rows_ : at::full({}, static_cast<double>(tokens_), chosen_N_.options());
  chosen_N_.div_(rows);
  value_ = (chosen_N_ * probabilities_N_.div_(rows)).sum().mul_(coefficient_ * static_cast<double>(experts_));
  // Each router's probability of a token has one part in `rows` of the mean.
  chosen_N_.div_(rows);
  factor_ = share * gradient_scale * coefficient_ * static_cast<double>(experts_);
  auto handle = c10::make_intrusive<Handle>();
  handle->balance = shared_from_this();
  return WithBalance::apply(loss, value_ * share, handle);
}

void Balance::begin_backward(const at::Tensor& gradient) { gradient_N_ = chosen_N_ * gradient * factor_; }

at::Tensor Balance::gradient_TN() const {
  const at::Tensor gradient_1N = gradient_N_.unsqueeze(0);
  return real_T_.defined() ? real_T_.unsqueeze(1) * gradient_1N : gradient_1N;
}

}  // namespace fathom::ops
