// Looks at the memory before and after work that is new; nothing moved in between where the ledger counted no change.
#include "play/repeats.h"

#include "ledger/operator_repeats.h"

namespace fathom::play {

uint64_t memory_state(const train::Placement& placement) {
  return placement.cuda != nullptr ? placement.cuda->layout() : static_cast<uint64_t>(placement.ledger->live_bytes());
}

Repeats::Repeats(const train::Placement& placement, const ArithmeticCount* count, LeavesOut leaves_out)
    : placement_(placement), count_(count), leaves_out_(leaves_out) {
  placement_.ledger->set_repeater([this](uint64_t kind, const ledger::Ledger::Work& work) { play(kind, work); });
  if (placement_.cuda == nullptr) return;
  ledger::set_operator_repeater(
      [this](uint64_t kind, const ledger::Ledger::Work& work) { play_in_operator(kind, work); });
}

Repeats::~Repeats() {
  placement_.ledger->set_repeater({});
  if (placement_.cuda != nullptr) ledger::set_operator_repeater({});
}

// What was left out within work that was done belongs to it.
plan::StepArithmetic Repeats::counted() const {
  return count_ != nullptr ? count_->parts() + left_out_ : plan::StepArithmetic();
}

uint64_t Repeats::state() {
  if (const int64_t changes = placement_.ledger->changes(); changes != changes_) {
    state_ = memory_state(placement_);
    changes_ = changes;
  }
  return state_;
}

void Repeats::play(uint64_t kind, const ledger::Ledger::Work& work) {
  if (leaves_out_ == LeavesOut::kQuiet) return work();
  const uint64_t before = state();
  if (const auto known = steady_.find({before, kind}); known != steady_.end()) {
    left_out_ = left_out_ + known->second;
    return;
  }
  const plan::StepArithmetic before_work = counted();
  work();
  if (state() != before) return;
  steady_[{before, kind}] = counted() - before_work;
}

// A large matrix has hundreds of parts. Where work on one asks for no memory, the state need not be looked at.
void Repeats::play_in_operator(uint64_t kind, const ledger::Ledger::Work& work) {
  if (asking_.contains(kind)) return play(kind, work);
  const int64_t changes = placement_.ledger->changes();
  if (changes != quiet_since_) quiet_.clear();
  quiet_since_ = changes;
  if (const auto known = quiet_.find(kind); known != quiet_.end()) {
    left_out_ = left_out_ + known->second;
    return;
  }
  const plan::StepArithmetic before_work = counted();
  work();
  if (placement_.ledger->changes() == changes) {
    quiet_[kind] = counted() - before_work;
  } else {
    asking_.insert(kind);
  }
}

}  // namespace fathom::play
