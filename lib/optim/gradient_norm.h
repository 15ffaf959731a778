// The norm of all gradients together, and the factor that clips them (Pascanu et al. 2013, arXiv 1211.5063).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

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

}  // namespace fathom::optim
