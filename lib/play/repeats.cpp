// Looks at the memory before and after work that is new; nothing moved in between where the ledger counted no change.
#include "play/repeats.h"

namespace fathom::play {
uint64_t memory_state(const train::Placement& placement) {
  return placement.cuda != nullptr ? placement.cuda->layout() : static_cast<uint64_t>(placement.ledger->live_bytes());
}

Repeats::Repeats(const train::Placement& placement, const ArithmeticCount* count)
    : placement_(placement), count_(count) {
  placement_.ledger->set_repeater([this](uint64_t kind, const ledger::Ledger::Work& work) { play(kind, work); });
}

Repeats::~Repeats() { placement_.ledger->set_repeater({}); }

uint64_t Repeats::state() {
  if (const int64_t changes = placement_.ledger->changes(); changes != changes_) {
    state_ = memory_state(placement_);
    changes_ = changes;
  }
  return state_;
}

void Repeats::play(uint64_t kind, const ledger::Ledger::Work& work) {
  const uint64_t before = state();
  if (const auto known = steady_.find({before, kind}); known != steady_.end()) {
    left_out_ = left_out_ + known->second;
    return;
  }
  const plan::Arithmetic counted = count_ != nullptr ? count_->sum() : plan::Arithmetic();
  work();
  if (state() != before) return;
  steady_[{before, kind}] = count_ != nullptr ? count_->sum() - counted : plan::Arithmetic();
}

}  // namespace fathom::play
