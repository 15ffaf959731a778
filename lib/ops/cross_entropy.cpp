// Cross-entropy whose gradient takes the place of the logits: a kernel, or LibTorch's operators where there is none.
#include "ops/cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <vector>

#include "base/error.h"
#include "ops/cuda_kernels.h"
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

void by_cuda_kernel(const CudaKernels& cuda, at::Tensor& loss, const at::Tensor& logits_CV, const at::Tensor& targets_C,
                    double denominator, double gradient_scale) {
  const at::Tensor losses_C = at::empty(targets_C.sizes(), loss.options());
  const auto scale = static_cast<float>(gradient_scale / denominator);
  check_launch("cross_entropy", cuda.cross_entropy(rows(logits_CV), targets_C.data_ptr<int64_t>(), kIgnoredTarget,
                                                   scale, losses_C.data_ptr<float>(), logits_CV.size(0),
                                                   logits_CV.size(1), current_stream(logits_CV)));
  loss.add_(losses_C.sum(), 1 / denominator);
}

void by_operators(at::Tensor& loss, at::Tensor& logits_CV, const at::Tensor& targets_C, double denominator,
                  double gradient_scale) {
  at::Tensor scores_CV = logits_CV.to(at::kFloat);  // the logits themselves where they are FP32
  at::_log_softmax_out(scores_CV, scores_CV, 1, /*half_to_float=*/false);
  loss.add_(at::nll_loss(scores_CV, targets_C, {}, at::Reduction::Sum, kIgnoredTarget), 1 / denominator);
  if (gradient_scale == 0) return;
  const at::Tensor target_C1 = targets_C.clamp_min(0).unsqueeze(1);
  const at::Tensor scale_C1 =
      targets_C.ne(kIgnoredTarget).unsqueeze(1).to(at::kFloat).div_(denominator / gradient_scale);
  scores_CV.exp_().scatter_add_(1, target_C1, at::full_like(target_C1, -1, at::kFloat));
  if (logits_CV.is_cuda()) {
    at::mul_out(logits_CV, scores_CV, scale_C1);  // rounded where it is written
  } else {
    logits_CV.copy_(scores_CV.mul_(scale_C1));
  }
}

}  // namespace

void add_cross_entropy(at::Tensor& loss, at::Tensor& logits_CV, const at::Tensor& targets_C, double denominator,
                       double gradient_scale) {
  const CudaKernels* cuda = cuda_kernels_for(logits_CV);
  if (!has_kernel(logits_CV) && cuda == nullptr) {
    return by_operators(loss, logits_CV, targets_C, denominator, gradient_scale);
  }
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::cross_entropy", gradient_scale != 0 ? traffic(logits_CV, targets_C, logits_CV)
                                                                             : traffic(logits_CV, targets_C));
  if (cuda != nullptr) return by_cuda_kernel(*cuda, loss, logits_CV, targets_C, denominator, gradient_scale);
  if (!logits_CV.is_cpu()) return;
  const double sum = loss_by_kernel(logits_CV, targets_C, gradient_scale / denominator);
  *loss.data_ptr<float>() += static_cast<float>(sum / denominator);
}

}  // namespace fathom::ops
