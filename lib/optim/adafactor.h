// Adafactor: second moments of a matrix kept as one number for each row and column (Shazeer and Stern 2018, arXiv
// 1804.04235), as transformers' Trainer sets it up: the learning rate of the schedule, no first moment.
#pragma once

#include "optim/optimizer.h"

namespace fathom::optim {

struct AdafactorOptions {
  double weight_decay = 0;
  double epsilon = 1e-30;        // added to squares of gradients
  double clip_threshold = 1;     // of the root mean square of an update, in units of the learning rate
  double decay_exponent = -0.8;  // second moments decay by 1 - step^this
};

class Adafactor : public Optimizer {
 public:
  // States, all FP32: "exp_avg_sq_row.<parameter>" and "exp_avg_sq_col.<parameter>" of a matrix, "exp_avg_sq.…" of a
  // vector.
  Adafactor(std::vector<OptimizedParameter> parameters, const AdafactorOptions& options, ledger::Ledger* ledger);

 private:
  struct Entry {
    at::Tensor parameter;
    bool decays;
    at::Tensor rows_N, columns_D;  // of a matrix
    at::Tensor squares;            // of a vector
  };
  struct Step {
    double rate, keep, decay, factor;
  };
  void update(double learning_rate, const at::Tensor& gradient_factor) override;
  // Of our kernels on the CPU, which read the gradient four times and take no memory beside two vectors.
  void update_matrix(const Entry& entry, const Step& step) const;
  void update_vector(const Entry& entry, const Step& step) const;
  // Elsewhere: takes one FP32 tensor of the parameter's shape, and a second one for a gradient that is not FP32.
  void update_by_operators(const Entry& entry, const Step& step, const at::Tensor& gradient) const;

  std::vector<Entry> entries_;
  AdafactorOptions options_;
};

}  // namespace fathom::optim
