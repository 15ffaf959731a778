// What every optimizer is to the trainer: an update from gradients, states that exist before the first step, a count of
// steps.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/run_config.h"
#include "ledger/host_memory.h"
#include "ledger/ledger.h"
#include "optim/staging.h"
#include "optim/updated.h"

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

// Where an optimizer's states lie: on the device of their parameters, which the ledger counts, or, the large ones, in
// the host's memory (footprint/offload.h).
struct StatesHome {
  StatesHome(ledger::Ledger* ledger_in,
             ledger::MakesHostMemory host_memory_in = nullptr)  // NOLINT(google-explicit-constructor)
      : ledger(ledger_in), host_memory(std::move(host_memory_in)) {}
  ledger::Ledger* ledger;               // may be null
  ledger::MakesHostMemory host_memory;  // null: all lie on the device
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One update from the parameters' gradients, all of which must be defined; they are left behind changed or not.
  // gradient_factor: what each gradient is multiplied by on the way, an FP32 scalar on the device; undefined: 1.
  void step(double learning_rate, const at::Tensor& gradient_factor = {});
  // The same update, one parameter after the other in any order: begin_step, then step_of for each. index: its place
  // in the list that the optimizer was made of. Its gradient is taken away and let go.
  void begin_step();
  void step_of(size_t index, double learning_rate);

  // Once all parameters are known: takes what the device needs for states that lie in the host's memory. backwards: the
  // first step will come to parameters from the last one on.
  void take_staging(bool backwards = false);
  // Until state() can be read: what lies in the host's memory is copied there meanwhile.
  void wait() const;
  int64_t host_bytes() const { return host_bytes_; }  // of states in the host's memory

  // What must be saved to resume: named tensors ("exp_avg.<parameter>") and the count of steps.
  const std::vector<std::pair<std::string, at::Tensor>>& state() const { return state_; }
  // Of how many of the parameter's elements each number of state()[i] is: 1, but for scales of blocks.
  const std::vector<int64_t>& state_blocks() const { return state_blocks_; }
  int64_t steps() const { return steps_; }
  virtual void set_steps(int64_t steps) { steps_ = steps; }

 protected:
  explicit Optimizer(StatesHome home) : home_(std::move(home)) {}
  void add_parameter(const OptimizedParameter& parameter);
  // Of the parameter that was added last: a tensor of zeros where states lie, claimed as optimizer_states there.
  void add_state(const std::string& name, at::IntArrayRef sizes, at::ScalarType dtype, int64_t block = 1);
  // Of all parameters in their order, without gradients.
  const std::vector<Updated>& parameters() const { return parameters_; }
  void claim(const at::Tensor& tensor, const std::string& name);
  // As ledger::Ledger::repeat.
  void repeat(uint64_t kind, const ledger::Ledger::Work& work) const;

 private:
  virtual void update(std::span<const Updated> all, double learning_rate, const at::Tensor& gradient_factor) = 0;
  bool lies_on_host(const at::Tensor& parameter) const;  // what is kept of it
  // Of a parameter whose states lie in the host's memory, by pieces.
  bool is_staged(size_t index) const { return index < staged_.size() && staged_[index] >= 0; }
  void update_staged(size_t index, const at::Tensor& gradient, double learning_rate, const at::Tensor& gradient_factor);

  StatesHome home_;
  std::vector<Updated> parameters_;
  std::vector<int64_t> staged_;  // of each parameter, which of the staging's it is; -1: none
  std::optional<Staging> staging_;
  int64_t host_bytes_ = 0;
  std::vector<std::pair<std::string, at::Tensor>> state_;
  std::vector<int64_t> state_blocks_;
  int64_t steps_ = 0;
};

using MakesOptimizer = std::unique_ptr<Optimizer>(const config::RunConfig& config,
                                                  const std::vector<OptimizedParameter>& parameters,
                                                  const StatesHome& home);
// The optimizer that the config names, with its settings. Allocates and claims all states.
MakesOptimizer make_optimizer;

// ---- for the optimizers themselves.

// Each is in the file of its name.
MakesOptimizer make_sgd, make_adafactor, make_lion;

// The factor as a number, for kernels on the CPU; 1 where it is undefined or the device only plays.
double factor_on_host(const at::Tensor& gradient_factor, const at::Tensor& parameter);
// The gradient in FP32 with the factor applied: in place if it is FP32, else a new tensor.
at::Tensor scaled_gradient(const at::Tensor& gradient, const at::Tensor& gradient_factor);

}  // namespace fathom::optim
