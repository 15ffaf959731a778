// A timeline made ready to be drawn: bytes of each component at so many instants for the picture, every block for the
// script.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/json.h"
#include "memory/timeline.h"

namespace fathom::page {

// The same without kernel scratch, its events not counted: what the predicted and the measured step have in common.
memory::Timeline without_scratch(const memory::Timeline& timeline);
// Live bytes at every position, 0 … events; kernel scratch apart.
std::vector<int64_t> live_bytes(const memory::Timeline& timeline);
// The same blocks in the same order, byte for byte: names and operators aside.
bool same_allocations(const memory::Timeline& a, const memory::Timeline& b);

struct Stack {
  std::vector<int64_t> positions;  // of the timeline, one for each column, ascending
  // Bytes of every component at them, [component][column].
  std::array<std::vector<int64_t>, memory::kComponentCount> bytes;
  size_t columns() const { return positions.size(); }
  // The first column at or after `position`; columns() if there is none.
  size_t column_of(int64_t position) const;
};

// Blocks of kernel scratch are left out. With more positions than columns each column shows the largest instant of its
// stretch, so the peak is always one of them.
Stack stack_of(const memory::Timeline& timeline, size_t columns_at_most);

// For the page's script, which draws any stretch of it: the timeline but for kernel scratch, whole, with what repeats
// written once. "sizes" and "labels" ([component, name, module, operator], into "names") are tables; "blocks" are rows
// of (size, label, events since the block before was taken, events until it is given back or 0 for never), one after
// the other.
Json script_data(const memory::Timeline& timeline);

}  // namespace fathom::page
