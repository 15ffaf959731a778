// Two passes over a stretch: which blocks are activations, then the sums at every instant.
#include "ledger/label.h"

#include <algorithm>

namespace fathom::ledger {
namespace {

using Kind = Record::Kind;

// Blocks that are alive when their backward begins were made for it.
void mark_activations(std::vector<uint32_t>& candidates, std::vector<Block>& blocks, const std::vector<bool>& alive) {
  for (uint32_t i : candidates)
    if (alive[i]) blocks[i].activation = true;
  candidates.clear();
}

void find_activations(const std::vector<Record>& records, const std::vector<uint32_t>& carried,
                      std::vector<Block>& blocks, LabelState& state) {
  std::vector<bool> alive(blocks.size());
  for (uint32_t i : carried) alive[i] = true;
  for (const Record& record : records) {
    switch (record.kind) {
      case Kind::kAllocate:
        alive[record.block] = true;
        if (state.recomputing)
          state.recomputed_blocks.push_back(record.block);
        else if (state.phase == memory::Phase::kForward)
          state.forward_blocks.push_back(record.block);
        break;
      case Kind::kFree:
        alive[record.block] = false;
        break;
      case Kind::kBeginPhase:
        state.phase = record.phase;
        state.recomputing = false;
        if (record.phase == memory::Phase::kBackward) mark_activations(state.forward_blocks, blocks, alive);
        break;
      case Kind::kEndPhase:
        state.phase.reset();
        state.recomputing = false;
        break;
      case Kind::kBeginRecomputation:
        state.recomputing = true;
        break;
      case Kind::kBeginSegmentBackward:
        state.recomputing = false;
        mark_activations(state.recomputed_blocks, blocks, alive);
        break;
    }
  }
  // The slots of dead blocks are reused after this stretch.
  auto drop_dead = [&](std::vector<uint32_t>& candidates) {
    std::erase_if(candidates, [&](uint32_t i) { return !alive[i]; });
  };
  drop_dead(state.forward_blocks);
  drop_dead(state.recomputed_blocks);
}

// The running sums, and the largest ones.
class Sums {
 public:
  explicit Sums(std::optional<memory::Phase> phase) : phase_(phase) {}

  void carry(const Block& block) {
    now_[component_of(block)] += block.bytes;
    live_ += block.bytes;
  }
  void start() {
    memory_.peak = memory_.peak_with_scratch = live_;
    memory_.at_peak = memory_.maximum = now_;
    if (phase_) open(*phase_);
  }
  void change(const Block& block, int64_t bytes) {
    if (block.kernel_scratch) {
      scratch_ += bytes;
      memory_.kernel_scratch = std::max(memory_.kernel_scratch, scratch_);
      memory_.peak_with_scratch = std::max(memory_.peak_with_scratch, live_ + scratch_);
      return;
    }
    memory::Component component = component_of(block);
    now_[component] += bytes;
    live_ += bytes;
    if (bytes < 0) return;
    memory_.peak_with_scratch = std::max(memory_.peak_with_scratch, live_ + scratch_);
    memory_.maximum[component] = std::max(memory_.maximum[component], now_[component]);
    if (live_ > memory_.peak) {
      memory_.peak = live_;
      memory_.at_peak = now_;
    }
    if (phase_ && live_ > occurrence_.peak) {
      occurrence_.peak = live_;
      occurrence_.at_peak = now_;
    }
  }
  void open(memory::Phase phase) {
    phase_ = phase;
    occurrence_ = {.seen = true, .peak = live_, .at_peak = now_, .end = {}};
  }
  void close() {
    if (!phase_) return;
    occurrence_.end = now_;
    memory::Memory closed;
    closed.phases[static_cast<int>(*phase_)] = occurrence_;
    memory_.merge(closed);
    phase_.reset();
  }
  std::optional<memory::Phase> phase() const { return phase_; }
  const memory::Memory& memory() const { return memory_; }

 private:
  std::optional<memory::Phase> phase_;
  int64_t live_ = 0, scratch_ = 0;
  memory::ComponentBytes now_;
  memory::Memory::PhaseMemory occurrence_;
  memory::Memory memory_;
};

}  // namespace

memory::Component component_of(const Block& block) {
  if (block.claim) return *block.claim;
  return block.activation ? memory::Component::kActivations : memory::Component::kTemporaryBuffers;
}

memory::Memory label_stretch(const std::vector<Record>& records, const std::vector<uint32_t>& carried,
                             std::vector<Block>& blocks, LabelState& state, std::vector<Ledger::Event>& events) {
  Sums sums(state.phase);
  find_activations(records, carried, blocks, state);
  for (uint32_t i : carried) sums.carry(blocks[i]);
  sums.start();
  events.clear();
  for (const Record& record : records) {
    switch (record.kind) {
      case Kind::kAllocate:
      case Kind::kFree: {
        const Block& block = blocks[record.block];
        int64_t bytes = record.kind == Kind::kAllocate ? block.bytes : -block.bytes;
        sums.change(block, bytes);
        events.push_back({.bytes = bytes,
                          .component = component_of(block),
                          .kernel_scratch = block.kernel_scratch,
                          .phase = sums.phase().value_or(memory::Phase::kLoad),
                          .in_phase = sums.phase().has_value()});
        break;
      }
      case Kind::kBeginPhase:
        sums.close();
        sums.open(record.phase);
        break;
      case Kind::kEndPhase:
        sums.close();
        break;
      case Kind::kBeginRecomputation:
      case Kind::kBeginSegmentBackward:
        break;
    }
  }
  sums.close();
  return sums.memory();
}

}  // namespace fathom::ledger
