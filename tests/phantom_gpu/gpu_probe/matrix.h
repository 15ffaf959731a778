// Runs of the memory matrix on a phantom GPU, the ledger held against the caching allocator at every event.
#pragma once

#include "base/json_value.h"

namespace fathom::phantom {

// request: "runs", names of runs of the matrix (tests/plan/memory_matrix.h). Each is played with the trainer itself and
// then given back, the allocator's cache included. Answer, one object per run:
//   "name"
//   "events": allocations and releases
//   "differences": events after which the components, as labelled, did not add up to the allocator's requested bytes
//   "negative": events before which rounding (allocated - requested) or cache (reserved - allocated) was below zero
//   "peak_live": the ledger's; "peak_requested", "peak_allocated", "peak_reserved": the allocator's
//   "left": [live, requested, allocated] once the trainer is gone and the workspaces are cleared
Json play_matrix(const Json& request);

}  // namespace fathom::phantom
