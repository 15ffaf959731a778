// Cross-entropy whose gradient takes the place of the logits: a kernel, or LibTorch's operators where there is none.
#include "ops/cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "ops/cuda_kernels.h"
#include "ops/rows.h"
#include "ops/traffic.h"

namespace fathom::ops {
namespace {

void require_in_vocabulary(const int64_t* targets, int64_t tokens, int64_t vocabulary) {
  for (int64_t t = 0; t < tokens; ++t) {
    if (targets[t] == kIgnoredTarget || (targets[t] >= 0 && targets[t] < vocabulary)) continue;
    throw Error("target " + std::to_string(targets[t]) + " is outside the vocabulary of " + std::to_string(vocabulary));
  }
}

// The loss of each row; turns row t of the logits into its gradient times scale_of(t), unless that is 0.
template <typename ScaleOf>
std::vector<double> losses_by_kernel(const at::Tensor& logits_TV, const at::Tensor& targets_T,
                                     const ScaleOf& scale_of) {
  const int64_t tokens = logits_TV.size(0), vocabulary = logits_TV.size(1);
  const int64_t* targets = targets_T.data_ptr<int64_t>();
  require_in_vocabulary(targets, tokens, vocabulary);
  std::vector<double> losses(tokens);
  at::parallel_for(0, tokens, 1, [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      losses[t] = cpu::cross_entropy(rows(logits_TV), targets, kIgnoredTarget, scale_of(t), t, t + 1, vocabulary);
    }
  });
  return losses;
}

at::Tensor losses_by_cuda_kernel(const CudaKernels& cuda, const at::Tensor& logits_CV, const at::Tensor& targets_C,
                                 float gradient_scale) {
  at::Tensor losses_C = at::empty(targets_C.sizes(), logits_CV.options().dtype(at::kFloat));
  check_launch("cross_entropy", cuda.cross_entropy(rows(logits_CV), targets_C.data_ptr<int64_t>(), kIgnoredTarget,
                                                   gradient_scale, losses_C.data_ptr<float>(), logits_CV.size(0),
                                                   logits_CV.size(1), current_stream(logits_CV)));
  return losses_C;
}

// The logits themselves where they are FP32.
at::Tensor log_softmax_of(const at::Tensor& logits_CV) {
  at::Tensor scores_CV = logits_CV.to(at::kFloat);
  at::_log_softmax_out(scores_CV, scores_CV, 1, /*half_to_float=*/false);
  return scores_CV;
}

// Where a target counts; 0 elsewhere. [C, 1]
at::Tensor counted(const at::Tensor& targets_C) { return targets_C.ne(kIgnoredTarget).unsqueeze(1).to(at::kFloat); }

// scores: log-probabilities, which are used up.
void make_gradient(at::Tensor& logits_CV, at::Tensor& scores_CV, const at::Tensor& targets_C,
                   const at::Tensor& scale_C1) {
  const at::Tensor target_C1 = targets_C.clamp_min(0).unsqueeze(1);
  scores_CV.exp_().scatter_add_(1, target_C1, at::full_like(target_C1, -1, at::kFloat));
  if (logits_CV.is_cuda()) {
    at::mul_out(logits_CV, scores_CV, scale_C1);  // rounded where it is written
  } else {
    logits_CV.copy_(scores_CV.mul_(scale_C1));
  }
}

void by_operators(at::Tensor& loss, at::Tensor& logits_CV, const at::Tensor& targets_C, double denominator,
                  double gradient_scale) {
  at::Tensor scores_CV = log_softmax_of(logits_CV);
  loss.add_(at::nll_loss(scores_CV, targets_C, {}, at::Reduction::Sum, kIgnoredTarget), 1 / denominator);
  if (gradient_scale == 0) return;
  make_gradient(logits_CV, scores_CV, targets_C, counted(targets_C).div_(denominator / gradient_scale));
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
  const double scale = gradient_scale / denominator;
  if (cuda != nullptr) {
    const at::Tensor losses_C = losses_by_cuda_kernel(*cuda, logits_CV, targets_C, static_cast<float>(scale));
    loss.add_(losses_C.sum(), 1 / denominator);
    return;
  }
  if (!logits_CV.is_cpu()) return;
  double sum = 0;
  for (const double each : losses_by_kernel(logits_CV, targets_C, [scale](int64_t) { return scale; })) sum += each;
  *loss.data_ptr<float>() += static_cast<float>(sum / denominator);
}

at::Tensor row_cross_entropy(at::Tensor& logits_CV, const at::Tensor& targets_C, const at::Tensor& gradients_C) {
  const CudaKernels* cuda = cuda_kernels_for(logits_CV);
  const bool gradients = gradients_C.defined();
  if (!has_kernel(logits_CV) && cuda == nullptr) {
    at::Tensor scores_CV = log_softmax_of(logits_CV);
    at::Tensor losses_C = at::nll_loss(scores_CV, targets_C, {}, at::Reduction::None, kIgnoredTarget);
    if (gradients) {
      make_gradient(logits_CV, scores_CV, targets_C, counted(targets_C).mul_(gradients_C.unsqueeze(1)));
    }
    return losses_C;
  }
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::row_cross_entropy",
                                gradients ? traffic(logits_CV, targets_C, logits_CV) : traffic(logits_CV, targets_C));
  if (cuda != nullptr) {
    at::Tensor losses_C = losses_by_cuda_kernel(*cuda, logits_CV, targets_C, gradients ? 1 : 0);
    if (gradients) logits_CV.mul_(gradients_C.unsqueeze(1));
    return losses_C;
  }
  at::Tensor losses_C = at::empty(targets_C.sizes(), logits_CV.options().dtype(at::kFloat));
  if (!logits_CV.is_cpu()) return losses_C;
  const at::Tensor scales_C = gradients ? gradients_C.contiguous() : at::Tensor();
  const float* scales = gradients ? scales_C.data_ptr<float>() : nullptr;
  const std::vector<double> losses = losses_by_kernel(
      logits_CV, targets_C, [scales](int64_t t) { return scales == nullptr ? 0 : static_cast<double>(scales[t]); });
  std::transform(losses.begin(), losses.end(), losses_C.data_ptr<float>(),
                 [](double loss) { return static_cast<float>(loss); });
  for (int64_t t = 0; gradients && t < scales_C.size(0); ++t) {
    if (scales[t] == 0) logits_CV.select(0, t).zero_();  // which the kernel leaves as they are
  }
  return losses_C;
}

}  // namespace fathom::ops
