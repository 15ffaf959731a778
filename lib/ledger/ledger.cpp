// Recording: every allocation and release under one lock, in buffers that are reused from stretch to stretch.
#include "ledger/ledger.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "ledger/label.h"
#include "ledger/pointer_table.h"
#include "ledger/stretch_timeline.h"
#include "memory/block_groups.h"

namespace fathom::ledger {
namespace {

thread_local int claim_of_thread = -1;

}  // namespace

struct Ledger::State {
  mutable std::mutex mutex;
  PointerTable numbers;
  std::vector<Block> blocks;
  std::vector<uint32_t> free_slots, carried;
  std::unordered_map<uint32_t, std::string> names;  // of claimed blocks
  Modules modules;
  uint32_t module = 0;
  memory::Timeline peak_timeline;
  std::pair<int64_t, int64_t> timeline_rank = {0, 0};  // its peak, and that of its forward pass
  std::optional<Refusal> refusal;
  std::vector<Record> records;
  std::vector<Event> events;
  LabelState label_state;
  memory::Memory memory;
  int64_t live = 0, changes = 0;
  Repeater repeater;
  std::optional<memory::Phase> phase;  // of the last begin_phase, ended or not

  void note(Record record) {
    records.push_back(record);
    if (records.size() >= kLongestStretch) cut();
  }

  // Where nothing is open that a cut would tell otherwise.
  void may_cut() {
    if (records.size() >= kLongStretch) cut();
  }
  memory::Memory label() {
    cut();
    return std::exchange(since_label, {});
  }
  void label_so_far() { cut(); }

  std::string description_of(uint32_t number) const {
    const auto name = names.find(number);
    const Block& block = blocks[number];
    return memory::describe_block(name == names.end() ? "" : name->second, modules.names[block.module],
                                  block.call.op == nullptr ? "" : block.call.op);
  }

 private:
  void cut() {
    const memory::Memory piece = label_stretch(records, carried, blocks, label_state, events);
    memory.merge(piece);
    // Of steps with the same peak the one whose forward pass takes most, whichever came first: a dry run plays some of
    // a run's steps, and is to show the one that the run shows.
    const std::pair<int64_t, int64_t> rank = {piece.peak, piece.phase(memory::Phase::kForward).peak};
    if (piece.phase(memory::Phase::kBackward).seen && rank > timeline_rank) {
      timeline_rank = rank;
      peak_timeline = make_timeline(records, carried, blocks, names, modules);
    }
    since_label.merge(piece);
    // Slots that died in this stretch are free again; the rest is carried into the next.
    auto settle = [this](uint32_t number) {
      if (blocks[number].alive) {
        blocks[number].carried = true;
        next_carried.push_back(number);
      } else if (blocks[number].key) {
        blocks[number].key = nullptr;
        free_slots.push_back(number);
        if (!names.empty()) names.erase(number);
      }
    };
    next_carried.clear();
    for (uint32_t number : carried) settle(number);
    for (const Record& record : records)
      if (record.kind == Record::Kind::kAllocate) settle(record.block);
    carried.swap(next_carried);
    records.clear();
  }

  memory::Memory since_label;  // of the pieces that label() has not returned yet
  std::vector<uint32_t> next_carried;
};

Ledger::Ledger() : state_(std::make_unique<State>()) {}
Ledger::~Ledger() = default;

void Ledger::on_allocate(const void* key, int64_t bytes, const KernelCall& call) {
  State& s = *state_;
  std::lock_guard guard(s.mutex);
  uint32_t number;
  if (s.free_slots.empty()) {
    number = static_cast<uint32_t>(s.blocks.size());
    s.blocks.emplace_back();
  } else {
    number = s.free_slots.back();
    s.free_slots.pop_back();
  }
  Block& block = s.blocks[number];
  block = {.key = key, .bytes = bytes, .call = call, .claim = {}, .alive = true, .module = s.module};
  if (claim_of_thread >= 0) block.claim = static_cast<memory::Component>(claim_of_thread);
  s.numbers.insert(key, number);
  s.live += bytes;
  s.changes += 1;
  s.note({.kind = Record::Kind::kAllocate, .block = number});
}

void Ledger::on_free(const void* key, const KernelCall& call) {
  State& s = *state_;
  std::lock_guard guard(s.mutex);
  uint32_t number = s.numbers.erase(key);
  if (number == PointerTable::kMissing) return;  // taken before this ledger listened
  Block& block = s.blocks[number];
  block.alive = false;
  block.kernel_scratch = !block.carried && (block.call.worker || (block.call.thread && block.call == call));
  s.live -= block.bytes;
  s.changes += 1;
  s.note({.kind = Record::Kind::kFree, .block = number});
}

void Ledger::begin_phase(memory::Phase phase) {
  std::lock_guard guard(state_->mutex);
  state_->module = 0;
  if (phase == memory::Phase::kForward) state_->may_cut();
  state_->phase = phase;
  state_->note({.kind = Record::Kind::kBeginPhase, .phase = phase});
}

void Ledger::end_phase() {
  std::lock_guard guard(state_->mutex);
  state_->module = 0;
  state_->note({.kind = Record::Kind::kEndPhase});
}

void Ledger::begin_recomputation() {
  std::lock_guard guard(state_->mutex);
  state_->note({.kind = Record::Kind::kBeginRecomputation});
}

void Ledger::begin_segment_backward() {
  std::lock_guard guard(state_->mutex);
  state_->note({.kind = Record::Kind::kBeginSegmentBackward});
}

void Ledger::claim(const at::Tensor& tensor, memory::Component component, std::string_view name) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  const void* key = tensor.storage().data_ptr().get_context();
  if (!key) return;
  std::lock_guard guard(state_->mutex);
  uint32_t number = state_->numbers.find(key);
  if (number == PointerTable::kMissing) return;
  state_->blocks[number].claim = component;
  if (!name.empty()) state_->names[number] = name;
}

memory::Memory Ledger::label() {
  std::lock_guard guard(state_->mutex);
  return state_->label();
}

const memory::Memory& Ledger::memory() const { return state_->memory; }

int64_t Ledger::live_bytes() const {
  std::lock_guard guard(state_->mutex);
  return state_->live;
}

int64_t Ledger::changes() const {
  std::lock_guard guard(state_->mutex);
  return state_->changes;
}

void Ledger::repeat(uint64_t kind, const Work& work) {
  if (state_->repeater) {
    state_->repeater(kind, work);
  } else {
    work();
  }
}

void Ledger::set_repeater(Repeater repeater) { state_->repeater = std::move(repeater); }

const std::vector<Ledger::Event>& Ledger::last_events() const { return state_->events; }

void Ledger::forget() {
  std::lock_guard guard(state_->mutex);
  state_->label();
  state_->memory = {};
  state_->peak_timeline = {};
  state_->timeline_rank = {0, 0};
  state_->refusal.reset();
}

const memory::Timeline& Ledger::peak_timeline() const { return state_->peak_timeline; }

void Ledger::enter(std::string_view module) {
  std::lock_guard guard(state_->mutex);
  state_->module = state_->modules.number_of(module);
  if (state_->phase == memory::Phase::kEvaluation) state_->may_cut();
}

std::string Ledger::entered() const {
  std::lock_guard guard(state_->mutex);
  return state_->modules.names[state_->module];
}

std::optional<memory::Phase> Ledger::phase() const {
  std::lock_guard guard(state_->mutex);
  return state_->phase;
}

void Ledger::on_refusal(int64_t bytes, const KernelCall& call) {
  State& s = *state_;
  std::lock_guard guard(s.mutex);
  Refusal refusal;
  refusal.bytes = bytes;
  refusal.module = s.modules.names[s.module];
  refusal.op = call.op != nullptr ? call.op : "";
  s.label_so_far();
  refusal.phase = s.label_state.phase;
  std::vector<bool> awaits_backward(s.blocks.size());
  for (const auto* candidates : {&s.label_state.forward_blocks, &s.label_state.recomputed_blocks}) {
    for (const uint32_t number : *candidates) awaits_backward[number] = true;
  }
  for (uint32_t number = 0; number < s.blocks.size(); number++) {
    const Block& block = s.blocks[number];
    if (!block.alive) continue;
    memory::Component component = component_of(block);
    if (awaits_backward[number] && !block.claim) component = memory::Component::kActivations;
    refusal.live[component] += block.bytes;
    refusal.blocks.push_back({block.bytes, component, s.description_of(number)});
  }
  const auto larger = [](const Refusal::Holding& a, const Refusal::Holding& b) {
    return std::tie(b.bytes, a.what) < std::tie(a.bytes, b.what);
  };
  std::sort(refusal.blocks.begin(), refusal.blocks.end(), larger);
  s.refusal = std::move(refusal);
}

std::optional<Ledger::Refusal> Ledger::refusal() const {
  std::lock_guard guard(state_->mutex);
  return state_->refusal;
}

ClaimScope::ClaimScope(memory::Component component) : previous_(claim_of_thread) {
  claim_of_thread = static_cast<int>(component);
}

ClaimScope::~ClaimScope() { claim_of_thread = previous_; }

}  // namespace fathom::ledger
