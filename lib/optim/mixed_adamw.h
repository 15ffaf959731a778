// AdamW whose weights and moments are stored in different types: moments in BF16 or in 8 bits (Dettmers et al. 2022,
// arXiv 2110.02861), BF16 weights with FP32 masters or rounded stochastically. All is computed in FP32. Where kernels
// for GPUs take it, also AdamW of one type, whose numbers are all rounded to nearest.
#pragma once

#include "cpu/mixed_adamw_kernel.h"
#include "footprint/moment_storage.h"
#include "footprint/update_groups.h"
#include "ops/cuda_kernels.h"
#include "ops/rows.h"
#include "optim/adamw.h"

namespace fathom::optim {

struct MixedAdamWOptions {
  AdamWOptions update;
  footprint::MomentStorage moments = footprint::MomentStorage::kFp32;  // kAsWeights: by kernels for GPUs alone
  config::MasterWeights masters = config::MasterWeights::kNone;
  uint64_t seed = 0;          // of stochastic rounding
  bool by_operators = false;  // as on devices without kernels of ours, wherever the parameters are
  // Those for GPUs; null: the ones in use, if there are any for the parameters.
  const ops::CudaKernels* cuda_kernels = nullptr;
};

class MixedAdamW : public Optimizer {
 public:
  // States: "exp_avg.<parameter>" and "exp_avg_sq.<parameter>", of the parameter's shape; of quantized ones codes, with
  // the blocks' scales in "exp_avg_scale.<parameter>" and "exp_avg_sq_scale.<parameter>"; of BF16 weights with masters
  // "master.<parameter>", which the first step takes from the weights. By operators one 4-byte count of steps besides,
  // and on a GPU the tables of codes.
  MixedAdamW(const std::vector<OptimizedParameter>& parameters, const MixedAdamWOptions& options,
             const StatesHome& home);
  void set_steps(int64_t steps) override;

 private:
  struct Moment {
    at::Tensor values;  // FP32, BF16 or codes
    at::Tensor scales;  // of codes, FP32
  };
  struct Entry {
    at::Tensor parameter, gradient, master;
    bool decays = false;
    int64_t place = 0, origin = 0;  // as Updated has them
    Moment first = {}, second = {};
  };
  // What a GPU looks codes up in.
  struct Table {
    at::Tensor values_256, borders_255;
    int64_t zero = 0;  // the code of 0
  };
  struct Tables {
    Table first, second;
  };
  void add_moment(const std::string& name, const OptimizedParameter& parameter);
  bool has_master(const at::Tensor& parameter) const {
    return options_.masters == config::MasterWeights::kFp32 && parameter.scalar_type() == at::kBFloat16;
  }
  Entry entry_of(const Updated& updated) const;
  void add_tables(at::Device device);

  void update(std::span<const Updated> all, double learning_rate, const at::Tensor& gradient_factor) override;
  bool has_kernel(const at::Tensor& parameter) const { return !options_.by_operators && ops::has_kernel(parameter); }
  bool rounds_stochastically(const at::Tensor& parameter) const {
    return options_.masters == config::MasterWeights::kStochastic && parameter.scalar_type() == at::kBFloat16;
  }
  cpu::DrawStream draw_stream(const Entry& entry) const;
  cpu::StoredWeights stored_weights(const Entry& entry) const;
  static cpu::StoredMoments stored_moments(const Entry& entry);
  static cpu::QuantizedMoments quantized_moments(const Entry& entry);
  static void add_traffic(const Entry& entry, const at::Tensor& gradient, std::vector<c10::IValue>& traffic);
  void update_by_kernel(const Entry& entry, const cpu::AdamWStep& step, const cpu::DrawStream& draws) const;
  void update_by_cuda_kernel(std::span<const Entry> entries, double learning_rate,
                             const at::Tensor& gradient_factor) const;
  ops::UpdatedParameter updated(const Entry& entry, const at::Tensor& gradient) const;
  // Elsewhere: a group of parameters at a time, whose FP32 copies are all that is taken.
  void update_by_operators(std::span<const Entry> entries, double learning_rate,
                           const at::Tensor& gradient_factor) const;
  struct Group;

  MixedAdamWOptions options_;
  Tables tables_;
  at::Tensor count_of_steps_;  // by operators
};

}  // namespace fathom::optim
