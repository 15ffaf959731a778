// What the operators of training steps take on this GPU: the table that plan/time/operator_times.h reads.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/devices.h"
#include "play/operator_timer.h"
#include "train/trainer.h"

namespace fathom::play {

// What a table says of itself besides its rows.
struct TableHead {
  config::GpuSpec gpu;      // as configs/gpus.yaml has it; what that does not list is the most that was measured
  std::string measured_on;  // "2026-11-21"
  double gap_seconds = plan::kRecordedGap;
  double launch_seconds = 1e-5;  // of a step's operators on the host, most of which are one launch
};

// Of operators that were timed once or more, the medians. Products of batches, and what moves so little that a launch
// is all that it takes, are left out.
Json table_of(const TableHead& head, const std::vector<TimedOperator>& timed);

// Trains layers of 0.1 to 8 billion parameters' widths, in full and with adapters, in 16 and 32 bits and on quantized
// bases, with each kernel of attention that the GPU has, and times each operator while the GPU is behind its host, as
// it is in large steps. A run that the GPU fails, as for want of memory, is left out with a warning. The GPU must serve
// nobody else, and multiply in BF16. placement: on CUDA, of a fresh process. head: without gaps and launches, which are
// measured too.
Json measure_operators(const TableHead& head, bool cuda_kernels, const train::Placement& placement,
                       const std::function<void(const std::string& run)>& watch);

}  // namespace fathom::play
