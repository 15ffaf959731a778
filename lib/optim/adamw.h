// AdamW with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101) in LibTorch's fused kernel, and gradient
// clipping.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "ledger/ledger.h"

namespace fathom::optim {

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
};

struct OptimizedParameter {
  std::string name;
  at::Tensor tensor;
  bool decays = false;
};

class AdamW {
 public:
  // Allocates both moments (zero, the parameter's dtype and device) and one 4-byte step count at once, and claims them.
  AdamW(std::vector<OptimizedParameter> parameters, const AdamWOptions& options, ledger::Ledger* ledger);
  // One update from the parameters' gradients (all must be defined); does not clear them.
  void step(double learning_rate);

  // What must be saved to resume: named tensors ("exp_avg.<parameter>", "exp_avg_sq.<parameter>") and the step count.
  std::vector<std::pair<std::string, at::Tensor>> state() const;
  int64_t steps() const;
  void set_steps(int64_t steps);

 private:
  struct Group {
    std::vector<at::Tensor> parameters, first_moments, second_moments, steps;
    double weight_decay;
  };
  std::vector<OptimizedParameter> parameters_;
  std::vector<Group> groups_;
  AdamWOptions options_;
  std::vector<std::pair<std::string, at::Tensor>> state_;
  at::Tensor steps_tensor_;
  int64_t steps_ = 0;
};

// Scales all gradients by min(1, max_norm / (norm + 1e-6)) as torch.nn.utils.clip_grad_norm_ does; max_norm 0 only
// measures. Returns the total 2-norm before clipping as a 0-dim tensor on the device (reading it synchronises).
at::Tensor clip_gradients(const std::vector<at::Tensor>& gradients, double max_norm);

}  // namespace fathom::optim
