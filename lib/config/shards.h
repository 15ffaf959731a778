// How the processes of a run divide a model: in how many shares one copy of it lies, and how many copies there are.
#pragma once

#include "config/optimizers.h"
#include "config/run_config.h"

namespace fathom::config {

// Whether processes may divide what it updates: between elements, or between the blocks of moments in 8 bits.
constexpr bool can_be_divided(const OptimizerRow& row) { return row.by_elements || row.is_adamw; }

// Processes that hold one copy of the model together: 1 where each has all of it.
inline int64_t shard_size(const RunConfig& run) {
  if (run.num_processes == 1 || run.strategy == Strategy::kDdp) return 1;
  return run.dp_shard_size > 0 ? run.dp_shard_size : run.num_processes / run.dp_replicate_size;
}

// Whether a process holds a share of the model, not all of it.
inline bool is_shared(const RunConfig& run) { return run.num_processes > 1 && run.strategy == Strategy::kFsdp; }

// Copies of the model.
inline int64_t replicas(const RunConfig& run) { return run.num_processes / shard_size(run); }

}  // namespace fathom::config
