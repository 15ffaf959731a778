// What the processes of a run send each other in a step, unit by unit, and how long it is expected to take: of GPUs
// that reach each other over links within a node, and over a network between nodes. Reckoned, never measured.
#pragma once

#include <cstdint>

#include "arch/run.h"
#include "plan/time/expected_time.h"
#include "schedule/steps.h"

namespace fathom::plan {

// The share of links' and networks' bandwidth that collectives of large messages are taken to reach. NCCL reckons with
// 235 of 300 GB/s for A100s (NVIDIA/nccl, src/graph/tuning.cc), on eight H100s 370 of 450 are told (NVIDIA/nccl#1374).
inline constexpr double kCollectiveEfficiency = 0.8;
// What a collective takes before its bytes: to start, and for each hop of its ring; as NCCL reckons, there.
inline constexpr double kStartSeconds = 8.4e-6, kLinkHopSeconds = 3.4e-6, kNetworkHopSeconds = 9.6e-6;

// Bytes that one rank sends in a step; it receives as many.
struct Traffic {
  int64_t gathered = 0;  // of parameters, from the shares of a copy
  int64_t reduced = 0;   // of gradients, to the ranks of a copy that keep them
  int64_t summed = 0;    // of gradients, over copies of the model
  int64_t bytes() const { return gathered + reduced + summed; }
  // The same bytes by the way that they go; over the network, the rank's part of what its node sends.
  int64_t over_links = 0, over_network = 0;
};

struct Communication {
  Traffic traffic;
  double seconds = 0;  // that it takes
  double exposed = 0;  // of these, while nothing computes
  double hidden() const { return seconds - exposed; }
};

// Of a step of one rank's micro-batches; throughput: with an interconnect. Nodes are filled rank by rank, and so are
// copies of the model. Parameters are gathered around a ring; gradients go straight to the rank that adds them up, and
// sums of copies around a ring again. A unit is gathered while the one before it computes, and the gradients of one go
// while the next computes: of each such pair the longer counts, and nothing hides the first gather and the last sum.
// With DDP, gradients of the last micro-batch go while the backward pass goes on.
Communication communication_of(const arch::Run& run, const schedule::StepShape& step, const Throughput& throughput);

// Of a step with its communication, where the throughput knows the run's interconnect; else of what it computes alone.
ExpectedTime expected_step_time(const arch::Run& run, const schedule::StepShape& step, const StepArithmetic& arithmetic,
                                const Throughput& throughput);

}  // namespace fathom::plan
