// Expected time of a step on named hardware, by the roofline: the sum over kinds of work of the larger of arithmetic
// and memory traffic, each at a stated share of the hardware's peak. No torch header.
#pragma once

#include <string>

#include "config/devices.h"
#include "config/run_config.h"
#include "plan/arithmetic.h"

namespace fathom::plan {

// What hardware does in a second, as it is sold or as it was measured.
struct Throughput {
  double matrix_flops_per_second = 0;  // dense, in the type in which the run computes
  double bytes_per_second = 0;         // of its memory
  double matrix_efficiency = 1;        // the share of each that a run is taken to reach; 1 for measured figures
  double memory_efficiency = 1;
  std::string source;  // "configs/gpus.yaml", "calibrated on 2026-11-21"
};
// Of a listed GPU for a run's precision; nullopt where the list lacks the figures.
std::optional<Throughput> throughput_of(const config::GpuSpec& gpu, const config::RunConfig& run,
                                        const model::ModelShape& shape);

struct ExpectedTime {
  double matrix_seconds = 0;
  double attention_seconds = 0;
  double memory_seconds = 0;  // of what moves bytes rather than computes
  double seconds() const { return matrix_seconds + attention_seconds + memory_seconds; }
};
ExpectedTime expected_time(const Arithmetic& arithmetic, const Throughput& throughput);

}  // namespace fathom::plan
