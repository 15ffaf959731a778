// What is counted of a step, part by part, while several threads count.
#pragma once

#include <atomic>
#include <cstdint>

#include "ledger/ledger.h"
#include "plan/time/arithmetic.h"

namespace fathom::play {

class StepSums {
 public:
  struct Part {
    std::atomic<int64_t> matrix_flops, attention_flops, bytes_moved;              // as plan::Arithmetic has them
    std::atomic<int64_t> matrix_ns, attention_ns, memory_ns, launches, recorded;  // as plan::DeviceTime
  };

  // Counts from nothing. phases: that tells in which part the step is; null: all counts as of its end.
  void begin(const ledger::Ledger* phases);
  // Of the part that the step is in.
  Part& here();
  void add(const plan::Arithmetic& work);  // without device
  // timed: with the device's times and launches, which are 0 else.
  plan::StepArithmetic told(bool timed);

 private:
  void settle_launches();
  memory::Phase phase() const;

  const ledger::Ledger* phases_ = nullptr;
  plan::StepParts<Part> parts_;
  std::atomic<memory::Phase> current_ = memory::Phase::kLoad;  // in which it was last asked
  std::atomic<int64_t> launches_seen_ = 0, recorded_seen_ = 0;
};

}  // namespace fathom::play
