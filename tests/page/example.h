// Random timelines, for properties that hold for all of them.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/split_mix.h"
#include "memory/timeline.h"

namespace fathom::page {

using memory::Timeline;

// Live bytes of one component at one position, as a timeline's definition says; kernel scratch apart.
inline int64_t live_bytes(const Timeline& timeline, memory::Component component, int64_t position) {
  int64_t bytes = 0;
  for (const Timeline::Block& block : timeline.blocks) {
    const bool alive = block.taken <= position && position < block.given_back;
    if (alive && block.component == component && !block.kernel_scratch) bytes += block.bytes;
  }
  return bytes;
}

inline int64_t live_bytes(const Timeline& timeline, int64_t position) {
  int64_t bytes = 0;
  for (const memory::Component component : memory::kComponents) bytes += live_bytes(timeline, component, position);
  return bytes;
}

// `before` blocks from before the stretch, then `events` allocations and releases, one in eight blocks kernel scratch.
inline Timeline random_timeline(uint64_t seed, int before, int events) {
  SplitMix64 random(seed);
  const auto below = [&](uint64_t limit) { return static_cast<int64_t>(random.below(limit)); };
  Timeline timeline;
  timeline.names = {"", "model.layers.0.mlp.up_proj.weight", "model.layers.1.mlp", "aten::mm"};
  std::vector<size_t> alive;
  const auto take = [&] {
    Timeline::Block block;
    block.bytes = below(2) == 0 ? below(64) : below(100000);
    block.taken = timeline.events;
    block.component = memory::kComponents.at(static_cast<size_t>(below(memory::kComponentCount)));
    block.kernel_scratch = timeline.events > 0 && below(8) == 0;
    block.name = static_cast<uint32_t>(below(2));
    block.module = static_cast<uint32_t>(2 * below(2));
    block.op = static_cast<uint32_t>(3 * below(2));
    alive.push_back(timeline.blocks.size());
    timeline.blocks.push_back(block);
  };
  for (int i = 0; i < before; ++i) take();
  for (int i = 0; i < events; ++i) {
    timeline.events++;
    if (alive.empty() || below(2) == 0) {
      take();
    } else {
      const auto which = alive.begin() + below(alive.size());
      timeline.blocks[*which].given_back = timeline.events;
      alive.erase(which);
    }
  }
  timeline.phases = {{memory::Phase::kForward, 0, events / 3}, {memory::Phase::kBackward, events / 3, events}};
  for (int64_t position = 0; position <= timeline.events; ++position) {
    const int64_t live = live_bytes(timeline, position);
    if (live > timeline.peak) {
      timeline.peak = live;
      timeline.peak_position = position;
    }
  }
  return timeline;
}

}  // namespace fathom::page
