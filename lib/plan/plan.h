// What a run will take: the values that planning makes and reports read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "memory/component.h"
#include "memory/timeline.h"
#include "plan/time/arithmetic.h"
#include "plan/time/expected_time.h"
#include "quant/layout.h"
#include "schedule/schedule.h"

namespace fathom::plan {

// The hardware a plan is for.
struct Target {
  config::Device device = config::Device::kCpu;  // kCpu or kCuda, never kAuto
  std::string name;                              // "CPU", or the GPU as configs/gpus.yaml names it ("H100")
  std::string compute_capability;                // of a GPU ("9.0"); empty on a CPU
  int64_t multiprocessors = 0;                   // of a GPU
  int64_t capacity_bytes = 0;                    // memory of the GPU, or of this machine; 0: unknown
  bool within_budget = false;                    // capacity_bytes is memory_budget, and the hardware has more
  int64_t threads = 0;           // that operators may use on the CPU; kernel scratch depends on it; 0 on a GPU
  bool amx = false;              // of a CPU: attention in BF16 runs in its tiles (ops/attention/amx_attention.h)
  int64_t gpus_per_node = 0;     // of a listed GPU; 0: not known
  std::string attention_kernel;  // ends as footprint::kernel_name says it: "flash attention", "math attention", …
  bool phantom = false;          // the run itself is played on a phantom: its measured figures are no real device's
};

// How much a dry run tells; each besides what the one before it tells.
enum class Detail {
  kBytes,
  kArithmetic,  // of the step that computes most
  kTimeline,    // of the largest step, for which all is played that repeats itself in a step
  kEvents,      // of the caching allocator, each: nothing of the run is left out
};

// What is played: the sizes that decide about memory besides the model's own.
struct Workload {
  schedule::Schedule schedule;                    // what the dry run plays
  std::vector<schedule::StepShape> steps;         // of it, the shapes that make the maxima (schedule::maximal_shapes)
  std::vector<schedule::BatchShape> evaluations;  // likewise for evaluation; empty: none
  // Of one slot of the ring of batches: rows x length of the largest batch of all, and of the largest source.
  int64_t capacity_tokens = 0, capacity_source_tokens = 0;
  int64_t shares = 1;              // of processes that share the model, of which the plan is of one
  int64_t parameters = 0;          // elements of all weights, adapters included
  int64_t trained_parameters = 0;  // of those, the ones with a gradient
  int64_t constants = 0;           // of those, the ones that no run trains
  bool trains_all() const { return trained_parameters + constants == parameters; }
  std::optional<quant::Scheme> base;  // how the frozen projections are stored; unset: as dtype says
  int64_t quantized_parameters = 0;   // elements that are stored so
};

// The analytic estimate (plan/estimate/analytic.h).
struct Analytic {
  memory::ComponentBytes at_peak;  // each component at the instant of the largest sum
  memory::ComponentBytes maximum;  // each component's own maximum
  int64_t peak = 0;                // at_peak.total()
  std::string instant;             // in words: "start of the backward pass", "optimizer step", …
  struct Term {                    // one line of the derivation, numbers filled in
    memory::Component component;
    std::string what;     // "queries"
    std::string formula;  // "8,192 tokens × 4,096 × 2 bytes"; of one layer where `layers` is set
    int64_t layers = 0;   // how many decoder layers hold it at this instant; 0: it belongs to no layer
    int64_t bytes = 0;    // in all: the formula's, times `layers` where that is set
    std::string source;   // "AdamW keeps two moments, Loshchilov and Hutter 2017, arXiv 1711.05101"
  };
  std::vector<Term> terms;  // of at_peak, in the order of components; they add up to `peak`
};

struct ByteRange {
  int64_t lowest = 0, highest = 0;
  bool contains(int64_t bytes) const { return lowest <= bytes && bytes <= highest; }
  bool operator==(const ByteRange&) const = default;
};

// How far the caching allocator's bytes of a long run may exceed those of its representatives.
inline constexpr int64_t kBoundBytes = int64_t{24} << 20, kBoundPart = 64;

// What LibTorch's caching allocator made of the requests, over several placements of its segments in the address space.
struct GpuBytes {
  int64_t requested = 0;      // peak of the bytes asked for: the same in every placement
  int64_t allocated = 0;      // peak, in the first placement
  int64_t reserved = 0;       // peak, in the first placement
  ByteRange allocated_range;  // over all placements
  ByteRange reserved_range;
  int64_t placements = 1;  // tried
  // The dry run played representatives of a long run: the upper ends of both ranges are bounds, which lie kBoundBytes
  // above what those took, or a kBoundPart-th of it if that is more.
  bool bound = false;
  int64_t limit = 0;          // that the run's allocator is given, where memory_budget is set (see plan_gpu)
  bool fits = true;           // the run ended within the GPU's capacity
  int64_t missing_bytes = 0;  // when it does not fit: lowest reserved without a limit, less the capacity
                              // (at least 1: running out is what counts, whatever the difference)
  std::optional<int64_t> overhead = std::nullopt;  // what the driver uses besides reserved bytes; unset: not calibrated
};

// Everything known before the run. Immutable once made.
struct Plan {
  Target target;
  Workload workload;
  Analytic analytic;
  memory::Memory dry_run;                // without limit, where the GPU's capacity ran out
  memory::Timeline timeline;             // of the step with the largest peak, as played
  StepArithmetic arithmetic;             // of the step with the most of it, as played
  std::optional<Throughput> throughput;  // of that step on a GPU whose like was measured operator by operator
  int64_t steps_played = 0;              // optimizer steps that the dry run took
  double seconds = 0;                    // that the dry run took
  std::optional<GpuBytes> gpu;           // for CUDA targets only
  int64_t offloaded = 0;                 // pinned in the host's memory (config offload_optimizer, offload_weights)
};

// What the ledger saw when the run was real (or played on a phantom GPU: Target::phantom).
struct Measured {
  memory::Memory memory;
  memory::Timeline timeline;                   // of the step with the largest peak
  std::optional<int64_t> allocated, reserved;  // peaks of the caching allocator, CUDA only
  std::optional<int64_t> device_growth;        // of the driver's used bytes over the run's peak, CUDA only
  std::optional<int64_t> resident_growth;      // of the process's resident memory over the run, CPU only
  int64_t offloaded = 0;                       // as Plan::offloaded
};

// The plan with what became of it; without `measured` it is the plan alone.
struct Comparison {
  Plan plan;
  std::optional<Measured> measured;
};

}  // namespace fathom::plan
