// Leaves out of a dry run what would repeat itself: from equal states of a device's memory equal requests are answered
// alike, so work that once left the state as it found it would do so again.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "ledger/ledger.h"
#include "plan/time/arithmetic.h"
#include "play/arithmetic_count.h"
#include "train/trainer.h"

namespace fathom::play {

// In equal states the same requests have the same answers: on CUDA the caching allocator's layout; on the CPU the live
// bytes, which are all that its allocator tells.
uint64_t memory_state(const train::Placement& placement);

// While alive, decides which of the work that is repeated (ledger::Ledger::repeat) is done, and on a GPU, of which a
// process plays one at a time, which of that within operators.
class Repeats {
 public:
  // What is left out where it is known: work within operators that asks for no memory, or any that changes no state.
  enum class LeavesOut { kQuiet, kSteady };
  // count: what it counts of work is known of its repetitions too; null: nothing is counted.
  explicit Repeats(const train::Placement& placement, const ArithmeticCount* count = nullptr,
                   LeavesOut leaves_out = LeavesOut::kSteady);
  ~Repeats();
  Repeats(const Repeats&) = delete;
  Repeats& operator=(const Repeats&) = delete;

  // Of the work that was left out.
  const plan::StepArithmetic& left_out() const { return left_out_; }

 private:
  void play(uint64_t kind, const ledger::Ledger::Work& work);
  void play_in_operator(uint64_t kind, const ledger::Ledger::Work& work);
  plan::StepArithmetic counted() const;
  uint64_t state();

  const train::Placement& placement_;
  const ArithmeticCount* count_;
  LeavesOut leaves_out_;
  std::map<std::pair<uint64_t, uint64_t>, plan::StepArithmetic> steady_;  // by state and kind, what changes no state
  std::map<uint64_t, plan::StepArithmetic> quiet_;  // by kind, what asked for nothing since the ledger's last change
  int64_t quiet_since_ = -1;                        // changes of the ledger
  std::set<uint64_t> asking_;                       // kinds in operators that asked for memory
  plan::StepArithmetic left_out_;
  uint64_t state_ = 0;    // as observed
  int64_t changes_ = -1;  // of the ledger, then
};

}  // namespace fathom::play
