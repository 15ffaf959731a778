// The norm of all gradients together, and the factor that clips them (Pascanu et al. 2013, arXiv 1211.5063).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace fathom::optim {

struct GradientNorm {
  at::Tensor total;   // the 2-norm before clipping, an FP32 scalar on the device (reading it synchronises)
  at::Tensor factor;  // min(1, max_norm / (total + 1e-6)), likewise; undefined without a limit
};

// Reads the gradients once and changes nothing: Optimizer::step applies the factor where it reads them anyway.
// max_norm 0: no limit. The factor is that of torch.nn.utils.clip_grad_norm_, never read back from the device.
GradientNorm gradient_norm(const std::vector<at::Tensor>& gradients, double max_norm);

}  // namespace fathom::optim
