// Allocates what the two kernels write, and launches them.
#include "optim/gradient_norm_cuda.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/rounding.h"
#include "footprint/optimizer.h"
#include "ops/rows.h"
#include "ops/traffic.h"

namespace fathom::optim {
namespace {

static_assert(ops::kSquaresPerSum == footprint::kSquaresPerSum);

}  // namespace

const ops::CudaKernels* norm_kernels_for(const std::vector<at::Tensor>& gradients) {
  const bool taken = std::all_of(gradients.begin(), gradients.end(), [&](const at::Tensor& gradient) {
    return gradient.device() == gradients.front().device() && ops::cuda_kernels_for(gradient) != nullptr;
  });
  return taken && !gradients.empty() ? ops::cuda_kernels_for(gradients.front()) : nullptr;
}

at::Tensor sums_of_squares(const ops::CudaKernels& kernels, const std::vector<at::Tensor>& gradients) {
  std::vector<ops::SquaredTensor> tensors;
  int64_t count = 0;
  for (const at::Tensor& gradient : gradients) {
    tensors.push_back({ops::rows(gradient), gradient.numel()});
    count += divide_up(gradient.numel(), ops::kSquaresPerSum);
  }
  const at::Tensor& any = gradients.front();
  at::Tensor sums = at::empty({count}, any.options().dtype(at::kFloat));
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::total_norm", ops::traffic(gradients, sums));
  ops::check_launch("sums_of_squares", kernels.sums_of_squares(tensors.data(), std::ssize(tensors),
                                                               sums.data_ptr<float>(), ops::current_stream(any)));
  return sums;
}

GradientNorm norm_of_sums(const ops::CudaKernels& kernels, const at::Tensor& sums, double max_norm,
                          std::optional<double> loss_scale) {
  GradientNorm norm{at::empty({}, sums.options()), {}};
  if (max_norm > 0 || loss_scale) norm.factor = at::empty({}, sums.options());
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::total_norm", ops::traffic(sums));
  ops::check_launch(
      "norm_of_sums",
      kernels.norm_of_sums(sums.const_data_ptr<float>(), sums.numel(), max_norm, loss_scale.value_or(1),
                           norm.total.data_ptr<float>(),
                           norm.factor.defined() ? norm.factor.data_ptr<float>() : nullptr, ops::current_stream(sums)));
  return norm;
}

}  // namespace fathom::optim
