// What bounds a run (the hardware, or memory_budget), what a plan is short of, and what to say then.
#pragma once

#include <cstdint>
#include <string>

#include "arch/run.h"
#include "config/devices.h"
#include "plan/advice/remedies.h"
#include "plan/plan.h"

namespace fathom::plan {

// What the target's capacity is held against: on a CPU the largest sum of live bytes and kernel scratch, on a GPU what
// the caching allocator reserves, lowest over placements.
int64_t needed_bytes(const Plan& plan);
// 0 where the plan fits; a target of unknown capacity takes everything.
int64_t missing_bytes(const Plan& plan);

// "memory_budget is 24.00 GiB", "this machine has 15.50 GiB free", "H100 has 79.10 GiB".
std::string describe_capacity(const Target& target);
// What is needed, what there is, the component to blame, and the settings that help most with the bytes each saves.
// Several lines; of a plan that does not fit.
std::string describe_misfit(const Plan& plan, const arch::Run& run, const ThroughputOf& throughput = {});

// A GPU of which a run may have so many bytes, or its memory_budget (0: unset) where that is less.
Target gpu_target(const config::GpuSpec& gpu, int64_t capacity_bytes, int64_t memory_budget);

// The smaller of a capacity and the run's memory_budget (0: unknown, unset), told in the target.
void bound_by_budget(Target& target, int64_t memory_budget);

}  // namespace fathom::plan
