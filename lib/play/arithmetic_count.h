// Counts what operators compute while they are dispatched: on the CPU, on CUDA and on both phantoms alike.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string_view>

#include "ledger/ledger.h"
#include "plan/time/arithmetic.h"
#include "plan/time/operator_times.h"

namespace fathom::play {

// An operator that is about to compute.
struct CountedOperator {
  std::string_view name;             // valid as long as the process
  at::ScalarType type = at::kFloat;  // of the first tensor, of a product's factors
  plan::Arithmetic work = {};        // without what it moves of its results
  int64_t bytes = 0;                 // of the arguments that are read or written, those of products too
  std::optional<plan::ProductSides> product = std::nullopt;
  std::optional<plan::AttentionSides> attention = std::nullopt;  // of fused kernels
};

// Hears of each operator that is counted, on its thread; of what announces itself within one, too.
class OperatorListener {
 public:
  virtual ~OperatorListener() = default;
  virtual void starts(const CountedOperator& op) = 0;
  // Of the last that has started: result_bytes are of new tensors.
  virtual void ends(int64_t result_bytes) = 0;
};

// While alive, adds up the operators that are called on any thread, by the shapes of their arguments: the outermost one
// that has a kernel of its own counts, what it calls for its work does not. One at a time in a process; a second one
// waits. Operators of the program that bypass the dispatcher announce themselves with RECORD_USER_SCOPE_WITH_INPUTS,
// naming what they read and write; attention that LibTorch's schemas do not describe says how much it computes
// (ops/attention/attention_pairs.h), and is timed as a whole.
class ArithmeticCount {
 public:
  // device: whose kernels decide what counts as one operator; the phantom device counts as the CPU.
  // listener: may be null. times: by which Arithmetic::device is reckoned; null: it stays 0. phases: that tells the
  // parts of a step apart; null: all counts as of its end.
  explicit ArithmeticCount(c10::DeviceType device, OperatorListener* listener = nullptr,
                           const plan::OperatorTimes* times = nullptr, const ledger::Ledger* phases = nullptr);
  ~ArithmeticCount();
  ArithmeticCount(const ArithmeticCount&) = delete;
  ArithmeticCount& operator=(const ArithmeticCount&) = delete;

  // Throws what counting an operator threw: such a sum would be too low.
  plan::StepArithmetic parts() const;
  plan::Arithmetic sum() const { return parts().whole(); }
  // That those operators took, from call to return: on the CPU their work, on CUDA no more than its launch.
  double matrix_seconds() const;
  double attention_seconds() const;

 private:
  uint64_t handle_ = 0;
};

}  // namespace fathom::play
