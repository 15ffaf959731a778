// A small plan with round figures, and a measurement that agrees with it, for the tests of reports.
#pragma once

#include "plan/plan.h"

namespace fathom::report {

inline memory::Memory example_memory() {
  using memory::Component;
  using memory::Phase;
  memory::Memory memory;
  memory.at_peak[Component::kWeights] = 4096;
  memory.at_peak[Component::kOptimizerStates] = 8200;
  memory.at_peak[Component::kFunctionality] = 512;
  memory.at_peak[Component::kActivations] = 2048;
  memory.at_peak[Component::kTemporaryBuffers] = 1024;
  memory.peak = memory.at_peak.total();
  memory.maximum = memory.at_peak;
  memory.maximum[Component::kGradients] = 4096;
  memory::Memory::PhaseMemory& load = memory.phases[static_cast<int>(Phase::kLoad)];
  load.seen = true;
  load.end[Component::kWeights] = 4096;
  load.at_peak = load.end;
  load.peak = 4096;
  memory::Memory::PhaseMemory& backward = memory.phases[static_cast<int>(Phase::kBackward)];
  backward.seen = true;
  backward.end[Component::kWeights] = 4096;
  backward.end[Component::kGradients] = 4096;
  backward.at_peak = memory.at_peak;
  backward.peak = memory.peak;
  return memory;
}

inline plan::Plan example_plan() {
  plan::Plan plan;
  plan.target.name = "CPU";
  plan.target.capacity_bytes = int64_t{16} << 30;
  plan.target.threads = 2;
  plan.target.attention_kernel = "flash attention";
  plan.workload.steps = {{{2, 8}, {1, 9}}};
  plan.workload.capacity_tokens = 16;
  plan.workload.parameters = 1024;
  plan.workload.trained_parameters = 1024;
  plan.dry_run = example_memory();
  plan.dry_run.kernel_scratch = 704;
  plan.analytic.at_peak = plan.dry_run.at_peak;
  plan.analytic.at_peak[memory::Component::kActivations] = 2000;
  plan.analytic.maximum = plan.analytic.at_peak;
  plan.analytic.peak = plan.analytic.at_peak.total();
  plan.analytic.instant = "start of the backward pass";
  plan.analytic.terms = {
      {memory::Component::kWeights, "weights", "1,024 parameters × 4 bytes", 0, 4096, "FP32 takes 4 bytes"},
      {memory::Component::kActivations, "layers", "750 bytes", 2, 1500, "kept for the backward pass"},
      {memory::Component::kActivations, "logits", "500 bytes", 0, 500, "kept for the backward pass"}};
  plan.steps_played = 3;
  plan.seconds = 0.25;
  return plan;
}

inline plan::Measured example_measured() {
  plan::Measured measured;
  measured.memory = example_memory();
  measured.memory.kernel_scratch = 640;
  measured.memory.peak_with_scratch = 16000;
  measured.resident_growth = 40000;
  return measured;
}

inline plan::Plan example_gpu_plan() {
  plan::Plan plan = example_plan();
  plan.target.device = config::Device::kCuda;
  plan.target.name = "H100";
  plan.target.compute_capability = "9.0";
  plan.target.capacity_bytes = int64_t{80} << 30;
  plan.target.threads = 0;
  plan.gpu = plan::GpuBytes{.requested = plan.dry_run.peak,
                            .allocated = 18432,
                            .reserved = 2097152,
                            .allocated_range = {17920, 18432},
                            .reserved_range = {2097152, 4194304},
                            .placements = 6,
                            .overhead = std::nullopt};
  return plan;
}

}  // namespace fathom::report
