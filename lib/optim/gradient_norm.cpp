// The norm of gradients, the same bits for any number of threads.
#include "optim/gradient_norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "ops/rows.h"
#include "ops/traffic.h"
#include "optim/gradient_norm_cuda.h"

namespace fathom::optim {
namespace {

constexpr int64_t kElementsPerSum = 65536;

// Shares of fixed size, added in order: the same bits for any number of threads, and once rounded to FP32 as good as
// always for any division among processes.
double sum_of_squares(const at::Tensor& contiguous) {
  if (!contiguous.is_cpu()) return 0;  // a phantom, which has no numbers
  std::vector<double> sums((contiguous.numel() + kElementsPerSum - 1) / kElementsPerSum);
  at::parallel_for(0, static_cast<int64_t>(sums.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t end = std::min((i + 1) * kElementsPerSum, contiguous.numel());
      sums[i] = cpu::sum_of_squares(ops::rows(contiguous), i * kElementsPerSum, end);
    }
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

// Type by type: LibTorch's multi-tensor kernels take tensors of one.
std::vector<at::Tensor> norms_of(const std::vector<at::Tensor>& gradients) {
  std::map<at::ScalarType, std::vector<at::Tensor>> of_type;
  for (const at::Tensor& gradient : gradients) of_type[gradient.scalar_type()].push_back(gradient);
  std::vector<at::Tensor> norms;
  for (const auto& [type, some] : of_type) {
    for (at::Tensor& norm : at::_foreach_norm(some, 2, at::kFloat)) norms.push_back(std::move(norm));
  }
  return norms;
}

bool has_kernel_for(const at::Tensor& gradient) { return ops::has_kernel(gradient) && gradient.is_contiguous(); }

// By kernels, in order: an FP32 scalar of these options.
at::Tensor root_of(const std::vector<double>& squares, const at::TensorOptions& options,
                   const std::function<double(double)>& of_all) {
  at::Tensor total = at::empty({}, options.dtype(at::kFloat));
  if (!total.is_cpu()) return total;
  double sum = std::accumulate(squares.begin(), squares.end(), 0.0);
  if (of_all) sum = of_all(sum);
  *total.data_ptr<float>() = static_cast<float>(std::sqrt(sum));
  return total;
}

// On a GPU, in FP32. LibTorch's norm of a BF16 tensor in FP32 would widen all of it first.
at::Tensor norm_on_device(const std::vector<at::Tensor>& gradients) {
  const ops::CudaKernels* const kernels = norm_kernels_for(gradients);
  if (kernels == nullptr) return at::linalg_vector_norm(at::stack(norms_of(gradients)), 2);
  return norm_of_sums(*kernels, sums_of_squares(*kernels, gradients), 0, std::nullopt).total;
}

// The 2-norm of all gradients together.
at::Tensor total_norm(const std::vector<at::Tensor>& gradients, const std::function<double(double)>& of_all) {
  if (!std::all_of(gradients.begin(), gradients.end(), has_kernel_for)) {
    at::Tensor total = norm_on_device(gradients);
    if (!of_all) return total;
    const double own = total.item<double>();
    return total.fill_(std::sqrt(of_all(own * own)));
  }
  const at::TensorOptions options = gradients.empty() ? at::TensorOptions() : gradients.front().options();
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::total_norm", ops::traffic(gradients));
  std::vector<double> squares;
  squares.reserve(gradients.size());
  for (const at::Tensor& gradient : gradients) squares.push_back(sum_of_squares(gradient));
  return root_of(squares, options, of_all);
}

}  // namespace

void RunningNorm::add(size_t index, const at::Tensor& gradient) {
  const at::NoGradGuard no_gradients;
  options_ = gradient.options();
  ++added_;
  if (!has_kernel_for(gradient)) {
    const ops::CudaKernels* const kernels = ops::cuda_kernels_for(gradient.device(), gradient.scalar_type());
    TORCH_INTERNAL_ASSERT(added_ == 1 || kernels == kernels_, "some gradients are summed otherwise than others");
    kernels_ = kernels;
    on_device_.at(index) =
        kernels_ != nullptr ? sums_of_squares(*kernels_, {gradient.contiguous()}) : norms_of({gradient}).front();
    return;
  }
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::total_norm", ops::traffic(gradient));
  squares_.at(index) = sum_of_squares(gradient);
}

at::Tensor RunningNorm::total() const {
  const at::NoGradGuard no_gradients;
  const auto there =
      std::count_if(on_device_.begin(), on_device_.end(), [](const at::Tensor& each) { return each.defined(); });
  TORCH_INTERNAL_ASSERT(added_ == on_device_.size() && (there == 0 || there == std::ssize(on_device_)),
                        "a gradient is missing, or lies otherwise than the rest");
  if (there == 0) return root_of(squares_, options_, nullptr);
  if (kernels_ != nullptr) return norm_of_sums(*kernels_, at::cat(on_device_), 0, std::nullopt).total;
  return at::linalg_vector_norm(at::stack(on_device_), 2);
}

std::optional<size_t> RunningNorm::first_not_finite() const {
  for (size_t i = 0; i < on_device_.size(); ++i) {
    const at::Tensor& there = on_device_[i];
    if (!std::isfinite(there.defined() ? there.sum(at::kDouble).item<double>() : squares_[i])) return i;
  }
  return std::nullopt;
}

GradientNorm gradient_norm(const std::vector<at::Tensor>& gradients, double max_norm, std::optional<double> loss_scale,
                           const std::function<double(double)>& of_all) {
  if (gradients.empty() && !of_all) throw Error("there are no gradients to clip", "train at least one parameter");
  const at::NoGradGuard no_gradients;
  if (const ops::CudaKernels* const kernels = of_all ? nullptr : norm_kernels_for(gradients)) {
    return norm_of_sums(*kernels, sums_of_squares(*kernels, gradients), max_norm, loss_scale);
  }
  GradientNorm norm{total_norm(gradients, of_all), {}};
  if (loss_scale) norm.total.div_(*loss_scale);
  if (max_norm > 0) norm.factor = (norm.total + 1e-6).reciprocal_().mul_(max_norm).clamp_max_(1);
  if (!loss_scale) return norm;
  if (!norm.factor.defined()) norm.factor = at::ones({}, norm.total.options());
  norm.factor.div_(*loss_scale);
  return norm;
}

}  // namespace fathom::optim
