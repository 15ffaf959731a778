// Cross-entropy whose gradient is ready when the forward pass ends.
#include "ops/cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "base/error.h"
#include "ops/rows.h"
#include "ops/traffic.h"

namespace fathom::ops {
namespace {

// The loss sum; turns the logits into their gradient times `scale` if that is not 0.
double loss_by_kernel(const at::Tensor& logits_TV, const at::Tensor& targets_T, double scale) {
  const int64_t tokens = logits_TV.size(0), vocabulary = logits_TV.size(1);
  const int64_t* targets = targets_T.data_ptr<int64_t>();
  for (int64_t t = 0; t < tokens; ++t) {
    if (targets[t] != kIgnoredTarget && (targets[t] < 0 || targets[t] >= vocabulary)) {
      throw Error("target " + std::to_string(targets[t]) + " is outside the vocabulary of " +
                  std::to_string(vocabulary));
    }
  }
  std::vector<double> losses(tokens);
  at::parallel_for(0, tokens, 1, [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      losses[t] = kernels::cross_entropy(rows(logits_TV), targets, kIgnoredTarget, scale, t, t + 1, vocabulary);
    }
  });
  double sum = 0;
  for (double loss : losses) sum += loss;
  return sum;
}

struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& logits_TV,
                            const at::Tensor& targets_T, double denominator, bool needs_gradient) {
    if (!has_kernel(logits_TV)) return by_operators(context, logits_TV, targets_T, denominator, needs_gradient);
    at::Tensor loss = at::empty({}, logits_TV.options().dtype(at::kFloat));
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::cross_entropy", needs_gradient ? traffic(logits_TV, targets_T, logits_TV)
                                                                          : traffic(logits_TV, targets_T));
    if (logits_TV.is_cpu()) {
      const double sum = loss_by_kernel(logits_TV, targets_T, needs_gradient ? 1 / denominator : 0);
      *loss.data_ptr<float>() = static_cast<float>(sum / denominator);
    }
    if (needs_gradient) context->save_for_backward({logits_TV.detach()});
    return loss;
  }

  static at::Tensor by_operators(torch::autograd::AutogradContext* context, const at::Tensor& logits_TV,
                                 const at::Tensor& targets_T, double denominator, bool needs_gradient) {
    at::Tensor scores_TV = at::log_softmax(logits_TV, -1, at::kFloat);
    at::Tensor loss = at::nll_loss(scores_TV, targets_T, {}, at::Reduction::Sum, kIgnoredTarget).div_(denominator);
    if (!needs_gradient) return loss;
    const at::Tensor target_T1 = targets_T.clamp_min(0).unsqueeze(1);
    const at::Tensor scale_T1 = targets_T.ne(kIgnoredTarget).unsqueeze(1).to(at::kFloat).div_(denominator);
    scores_TV.exp_().scatter_add_(1, target_T1, at::full_like(target_T1, -1, at::kFloat)).mul_(scale_T1);
    context->save_for_backward({scores_TV.to(logits_TV.scalar_type())});
    return loss;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    at::Tensor gradient_TV = context->get_saved_variables()[0];
    const at::Tensor& upstream = gradients[0];
    // The upstream gradient is 1 unless the caller scaled the loss; asking costs a synchronisation on CUDA.
    const bool is_one = upstream.is_privateuseone() || (upstream.is_cpu() && *upstream.data_ptr<float>() == 1.0f);
    if (!is_one) gradient_TV = gradient_TV * upstream.to(gradient_TV.scalar_type());
    return {gradient_TV, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor cross_entropy(const at::Tensor& logits_BSV, const at::Tensor& targets_BS, double denominator) {
  const at::Tensor logits_TV = logits_BSV.reshape({-1, logits_BSV.size(-1)});
  const bool needs_gradient = at::GradMode::is_enabled() && logits_BSV.requires_grad();
  return CrossEntropy::apply(logits_TV, targets_BS.reshape({-1}), denominator, needs_gradient);
}

}  // namespace fathom::ops
