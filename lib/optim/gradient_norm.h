// The norm of all gradients together, and the factor that clips them (Pascanu et al. 2013, arXiv 1211.5063).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace fathom::ops {
struct CudaKernels;
}

namespace fathom::optim {

struct GradientNorm {
  at::Tensor total;   // the 2-norm before clipping, an FP32 scalar on the device (reading it synchronises)
  at::Tensor factor;  // of each gradient: clips it and takes the loss scale off; undefined where there is neither
};

// Reads the gradients once and changes nothing: Optimizer::step applies the factor where it reads them anyway.
// max_norm 0: no limit. Else the factor is that of torch.nn.utils.clip_grad_norm_, min(1, max_norm / (total + 1e-6)),
// never read back from the device. loss_scale: what the gradients were multiplied by, which the total is without.
// The total is finite only where all gradients are.
// of_all: where each process has a share of the gradients, which may be none, the sum over all of what it is given.
GradientNorm gradient_norm(const std::vector<at::Tensor>& gradients, double max_norm,
                           std::optional<double> loss_scale = std::nullopt,
                           const std::function<double(double)>& of_all = nullptr);

// The norm of gradients that come one at a time and do not stay: the same number as of all together.
class RunningNorm {
 public:
  // Of so many gradients.
  explicit RunningNorm(size_t gradients) : squares_(gradients), on_device_(gradients) {}
  // The one of this number, in any order.
  void add(size_t index, const at::Tensor& gradient);
  // Of all, as GradientNorm::total. Each must have been added.
  at::Tensor total() const;
  // Of those that were added, the first that is not finite; reading them synchronises.
  std::optional<size_t> first_not_finite() const;

 private:
  std::vector<double> squares_;  // sums, on the CPU
  // Elsewhere: norms, FP32 scalars; by kernels of ours sums of squares, FP32 [sums].
  std::vector<at::Tensor> on_device_;
  const ops::CudaKernels* kernels_ = nullptr;
  at::TensorOptions options_;
  size_t added_ = 0;
};

}  // namespace fathom::optim
