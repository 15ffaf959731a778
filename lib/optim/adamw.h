// AdamW with decoupled weight decay (Loshchilov and Hutter 2017, arXiv 1711.05101), as torch.optim.AdamW: a kernel of
// our own on the CPU, LibTorch's fused one elsewhere; with kernels of ours on a GPU it is optim/mixed_adamw.h's.
#pragma once

#include "cpu/optimizer_kernels.h"
#include "optim/optimizer.h"

namespace fathom::optim {

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
};

// The numbers of a step, counted from 1; the factor of clipping is the caller's.
cpu::AdamWStep adamw_step(const AdamWOptions& options, int64_t count, double learning_rate, double weight_decay);

class AdamW : public Optimizer {
 public:
  // States: "exp_avg.<parameter>" and "exp_avg_sq.<parameter>", of the parameter's type and shape; for the fused kernel
  // one 4-byte count of steps besides.
  AdamW(const std::vector<OptimizedParameter>& parameters, const AdamWOptions& options, const StatesHome& home);
  void set_steps(int64_t steps) override;

 private:
  void update(std::span<const Updated> all, double learning_rate, const at::Tensor& gradient_factor) override;
  void update_by_kernel(const Updated& updated, double learning_rate, const at::Tensor& gradient_factor) const;
  void update_fused(std::span<const Updated> all, double learning_rate, const at::Tensor& gradient_factor) const;
  double weight_decay(const Updated& updated) const { return updated.decays ? options_.weight_decay : 0; }

  AdamWOptions options_;
  at::Tensor steps_tensor_;
};

}  // namespace fathom::optim
