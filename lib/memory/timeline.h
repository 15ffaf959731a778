// One recorded stretch (a step), block by block: what a plot of memory over time and an account of a peak are made of.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/json.h"
#include "memory/component.h"

namespace fathom::memory {

// Positions count the allocations and releases of the stretch, 0 … events: a block is alive at the positions p with
// taken <= p < given_back.
struct Timeline {
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  struct Block {
    int64_t bytes = 0;
    int64_t taken = 0;            // 0: at the start of the stretch or before it
    int64_t given_back = kNever;  // kNever: alive at its end
    Component component = Component::kTemporaryBuffers;
    bool kernel_scratch = false;
    uint32_t name = 0;    // index into `names`: of the tensor ("model.norm.weight"); 0, the empty one, if it has none
    uint32_t module = 0;  // where in the model: "model.layers.3.mlp"
    uint32_t op = 0;      // the operator that took it: "aten::mm"; empty where that is not watched
    bool operator==(const Block&) const = default;
  };
  struct Span {
    Phase phase = Phase::kLoad;
    int64_t begin = 0, end = 0;  // positions
    bool operator==(const Span&) const = default;
  };

  std::vector<std::string> names = {""};
  std::vector<Block> blocks;  // in the order in which they were taken; what was alive before the stretch first
  std::vector<Span> phases;   // in order, without overlaps
  int64_t events = 0;
  int64_t peak = 0;           // the largest live bytes, kernel scratch apart
  int64_t peak_position = 0;  // where it is reached first

  bool operator==(const Timeline&) const = default;
};

// The blocks that are alive at the peak, kernel scratch apart, largest first.
std::vector<Timeline::Block> largest_at_peak(const Timeline& timeline, size_t count);

Json to_json(const Timeline& timeline);
Timeline timeline_from_json(const Json& value);  // throws Error for a value of another form

}  // namespace fathom::memory
