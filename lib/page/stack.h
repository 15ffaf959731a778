// A timeline made ready to be drawn: so many columns, so many single blocks, and the small ones summed by component.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/json.h"
#include "ledger/timeline.h"

namespace fathom::page {

// The same without kernel scratch, its events not counted: what the predicted and the measured step have in common.
ledger::Timeline without_scratch(const ledger::Timeline& timeline);
// The same blocks in the same order, byte for byte: names and operators aside.
bool same_allocations(const ledger::Timeline& a, const ledger::Timeline& b);

struct Stack {
  std::vector<int64_t> positions;              // of the timeline, one for each column, ascending
  std::vector<ledger::Timeline::Block> parts;  // drawn one by one, in the order in which they were taken
  // Bytes of all other blocks, [component][column].
  std::array<std::vector<int64_t>, ledger::kComponentCount> rest;
  size_t columns() const { return positions.size(); }
  // The first column at or after `position`; columns() if there is none.
  size_t column_of(int64_t position) const;
};

// Blocks of kernel scratch are left out. With more positions than columns each column shows the largest instant of its
// stretch, so the peak is always one of them. A block is a part of its own if its area, bytes times columns, is among
// the `parts_at_most` largest and it is not too small to be seen. At every column the parts that are alive and the rest
// add up to the timeline's live bytes, component by component.
Stack stack_of(const ledger::Timeline& timeline, size_t columns_at_most, size_t parts_at_most);

// Bytes of every component, [component][column], parts and rest together.
std::array<std::vector<int64_t>, ledger::kComponentCount> component_bytes(const Stack& stack);

// For the page's script: names, columns, phases, blocks as arrays of numbers, rest as (column, bytes) where it changes.
Json to_json(const Stack& stack, const ledger::Timeline& timeline);

}  // namespace fathom::page
