// Lion: the sign of a mixture of momentum and gradient (Chen et al. 2023, arXiv 2302.06675), with decoupled weight
// decay.
#pragma once

#include "optim/optimizer.h"

namespace fathom::optim {

struct LionOptions {
  double beta1 = 0.9, beta2 = 0.999, weight_decay = 0;
};

class Lion : public Optimizer {
 public:
  // States: "exp_avg.<parameter>", FP32 whatever the parameter is (what lion_32bit names).
  Lion(std::vector<OptimizedParameter> parameters, const LionOptions& options, ledger::Ledger* ledger);

 private:
  void update(double learning_rate, const at::Tensor& gradient_factor) override;

  std::vector<OptimizedParameter> parameters_;
  std::vector<at::Tensor> momenta_;
  LionOptions options_;
};

}  // namespace fathom::optim
