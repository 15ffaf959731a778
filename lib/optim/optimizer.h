// What every optimizer is to the trainer: an update from gradients, states that exist before the first step, a count of
// steps.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/run_config.h"
#include "ledger/ledger.h"

namespace fathom::optim {

struct OptimizedParameter {
  std::string name;
  at::Tensor tensor;  // a contiguous leaf
  bool decays = false;
  // Where processes divide a parameter, the tensor is a share of it, [n], which may be empty; what an update asks of
  // the whole:
  struct Whole {
    int64_t place = 0;  // among the parameters that are trained
    int64_t first = 0;  // its element that the share begins with: the first of a block of moments
    int64_t elements = 0;
  };
  std::optional<Whole> whole = {};
  int64_t elements() const { return whole ? whole->elements : tensor.numel(); }
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One update from the parameters' gradients, all of which must be defined; they are left behind changed or not.
  // gradient_factor: what each gradient is multiplied by on the way, an FP32 scalar on the device; undefined: 1.
  void step(double learning_rate, const at::Tensor& gradient_factor = {});

  // What must be saved to resume: named tensors ("exp_avg.<parameter>") and the count of steps.
  const std::vector<std::pair<std::string, at::Tensor>>& state() const { return state_; }
  // Of how many of the parameter's elements each number of state()[i] is: 1, but for scales of blocks.
  const std::vector<int64_t>& state_blocks() const { return state_blocks_; }
  int64_t steps() const { return steps_; }
  virtual void set_steps(int64_t steps) { steps_ = steps; }

 protected:
  explicit Optimizer(ledger::Ledger* ledger) : ledger_(ledger) {}
  // A tensor of zeros on the parameter's device, claimed as optimizer_states.
  at::Tensor add_state(const std::string& name, const at::Tensor& parameter, at::IntArrayRef sizes,
                       at::ScalarType dtype, int64_t block = 1);
  void claim(const at::Tensor& tensor, const std::string& name);
  // As ledger::Ledger::repeat.
  void repeat(uint64_t kind, const ledger::Ledger::Work& work) const;

 private:
  virtual void update(double learning_rate, const at::Tensor& gradient_factor) = 0;

  ledger::Ledger* ledger_;
  std::vector<std::pair<std::string, at::Tensor>> state_;
  std::vector<int64_t> state_blocks_;
  int64_t steps_ = 0;
};

using MakesOptimizer = std::unique_ptr<Optimizer>(const config::RunConfig& config,
                                                  std::vector<OptimizedParameter> parameters, ledger::Ledger* ledger);
// The optimizer that the config names, with its settings. Allocates and claims all states.
MakesOptimizer make_optimizer;

// ---- for the optimizers themselves.

// Each is in the file of its name.
MakesOptimizer make_sgd, make_adafactor, make_lion;

// The factor as a number, for kernels on the CPU; 1 where it is undefined or the device only plays.
double factor_on_host(const at::Tensor& gradient_factor, const at::Tensor& parameter);
// The gradient in FP32 with the factor applied: in place if it is FP32, else a new tensor.
at::Tensor scaled_gradient(const at::Tensor& parameter, const at::Tensor& gradient_factor);

}  // namespace fathom::optim
