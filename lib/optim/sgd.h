// Stochastic gradient descent without momentum (Robbins and Monro 1951), as torch.optim.SGD: it keeps nothing between
// steps.
#pragma once

#include "optim/optimizer.h"

namespace fathom::optim {

struct SgdOptions {
  double weight_decay = 0;  // added to the gradient; without momentum that is the same as decoupled decay
};

class Sgd : public Optimizer {
 public:
  Sgd(std::vector<OptimizedParameter> parameters, const SgdOptions& options, ledger::Ledger* ledger);

 private:
  // On a device without kernels of ours: parameters of one type and weight decay.
  void update_fused(const std::vector<at::Tensor>& parameters, double weight_decay, double learning_rate,
                    const at::Tensor& gradient_factor) const;
  void update(double learning_rate, const at::Tensor& gradient_factor) override;

  std::vector<OptimizedParameter> parameters_;
  SgdOptions options_;
};

}  // namespace fathom::optim
