// What lies in the host's memory, of an optimizer's states (config offload_optimizer) or of layers (offload_weights),
// and what the device holds of it meanwhile.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/rounding.h"

namespace fathom::footprint {

// Of a parameter of fewer numbers the states stay on the device: copies of so few bytes take longer to begin than to
// end.
inline constexpr int64_t kSmallestOffloaded = int64_t{1} << 14;
inline bool is_offloaded(int64_t elements) { return elements >= kSmallestOffloaded; }

// A parameter is updated a piece at a time, of so many numbers: whole blocks of moments.
inline constexpr int64_t kPieceElements = int64_t{1} << 22;
inline int64_t pieces_of(int64_t elements) { return divide_up(elements, kPieceElements); }

// The states of a piece lie in one of the slots that the device has for them: as many as these bytes hold, at least
// two, at most one for each piece.
inline constexpr int64_t kStagingBytes = int64_t{256} << 20;
inline constexpr int64_t kStagingAlignment = 256;  // of each tensor in a slot
inline int64_t staging_slots(int64_t slot_bytes, int64_t pieces) {
  return std::min(pieces, std::max<int64_t>(2, kStagingBytes / slot_bytes));
}

// Layers that are on the device at a time: the one that computes, and the next.
inline constexpr int64_t kLayerSlots = 2;

}  // namespace fathom::footprint
