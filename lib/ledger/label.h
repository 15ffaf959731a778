// The labelling: a recorded stretch of events in, the component of every block and the memory of the stretch out.
// One function for the CPU, CUDA and both phantoms; it knows no device and no tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ledger/kernel_call.h"
#include "ledger/ledger.h"
#include "memory/component.h"

namespace fathom::ledger {

struct Block {
  const void* key = nullptr;  // null: the slot is free
  int64_t bytes = 0;
  KernelCall call;                         // inside which it was taken
  std::optional<memory::Component> claim;  // wins over what the labelling finds
  bool alive = false;
  bool kernel_scratch = false;
  bool activation = false;
  bool carried = false;  // alive at the end of an earlier stretch
  uint32_t module = 0;   // index into the ledger's module names
};
// Valid once the block's stretch has been labelled.
memory::Component component_of(const Block& block);

struct Record {
  enum class Kind : uint8_t { kAllocate, kFree, kBeginPhase, kEndPhase, kBeginRecomputation, kBeginSegmentBackward };
  Kind kind;
  memory::Phase phase = memory::Phase::kLoad;  // of kBeginPhase
  uint32_t block = 0;                          // of kAllocate and kFree: index into the blocks
};

// A program that never labels must not grow without end: the ledger labels unasked, and the next label() returns the
// merge of the pieces. After so many records it does so where that changes nothing: before a forward pass, and where an
// evaluation enters a part of the model.
inline constexpr size_t kLongStretch = size_t{1} << 20;
// After so many anywhere: peaks are exact then, but components are what was known at each cut. A block that is claimed
// only after the cut (a gradient, at the end of its backward) counts as a temporary buffer before it,
// so does a block of a forward whose backward had not begun, and kernel scratch that was taken before the cut and given
// back after it is part of `live`. last_events() holds what came after the last cut.
inline constexpr size_t kLongestStretch = size_t{1} << 22;

// What is open between two stretches.
struct LabelState {
  std::optional<memory::Phase> phase;
  bool recomputing = false;
  std::vector<uint32_t> forward_blocks;     // made in a forward whose backward has not begun
  std::vector<uint32_t> recomputed_blocks;  // made in the recomputation whose backward has not begun
};

// carried: blocks alive at the start of the stretch. On return `events` holds one entry per allocation and release, and
// the blocks' `activation` is set. A phase that is open at either end of the stretch counts as an occurrence of its
// own.
memory::Memory label_stretch(const std::vector<Record>& records, const std::vector<uint32_t>& carried,
                             std::vector<Block>& blocks, LabelState& state, std::vector<Ledger::Event>& events);

}  // namespace fathom::ledger
