// When a run that records its layers (config cuda_graphs) does so: what a recording keeps stays until the run ends.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "schedule/schedule.h"
#include "schedule/steps.h"

namespace fathom::schedule {

// Follows the batches of a run, one to a step, as ops/recorded_segments.h does.
class Recordings {
 public:
  struct Placed {
    BatchShape batch;
    int64_t event = 0;
  };
  // Between recordings a batch of the same size finds the same memory, computed as it comes or replayed.
  int64_t stage_of(const BatchShape& batch, int64_t event);
  // Of each shape that is recorded the batch that comes first, and the one that is recorded, by their events.
  const std::map<int64_t, BatchShape>& needed() const { return needed_; }
  const std::set<std::pair<int64_t, int64_t>>& recorded() const { return recorded_; }  // rows and length

 private:
  using Kind = std::pair<int64_t, int64_t>;  // rows and length
  std::map<Kind, Placed> first_;
  std::set<Kind> recorded_;
  std::map<int64_t, BatchShape> needed_;
};

// Tokens of all shapes that a run in this order records, but for the largest.
int64_t recorded_beside_the_largest(const Schedule& schedule);

}  // namespace fathom::schedule
