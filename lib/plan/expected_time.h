// Expected time of a step on named hardware, by the roofline: each kind of work at a stated share of what the hardware
// does in a second, one kind after the other, as one stream of kernels runs them.
#pragma once

#include <optional>
#include <string>

#include "arch/architecture.h"
#include "config/devices.h"
#include "config/run_config.h"
#include "plan/arithmetic.h"

namespace fathom::plan {

// What hardware does in a second, as it is sold or as it was measured.
struct Throughput {
  double matrix_flops_per_second = 0;     // dense, in the type in which the run computes
  double attention_flops_per_second = 0;  // likewise
  double bytes_per_second = 0;            // of its memory
  double matrix_efficiency = 1;           // the share of each that a run is taken to reach; 1 for measured figures
  double attention_efficiency = 1;
  double memory_efficiency = 1;
  std::string source;  // "configs/gpus.yaml", "calibrated on 2026-11-21"
};

// The shares of a data sheet's peaks that a training step is taken to reach, the same for every GPU. Large matrix
// products reach 60 to 80 % of the dense peak on A100 and H100, flash attention 2 about 35 % (H100) to 65 % (A100)
// forward and less backward (Dao 2023, arXiv 2307.08691; Shah et al. 2024, arXiv 2407.08608), element by element
// kernels 80 to 90 % of the bandwidth.
inline constexpr double kMatrixEfficiency = 0.65;
inline constexpr double kAttentionEfficiency = 0.35;
inline constexpr double kMemoryEfficiency = 0.8;

// Of a listed GPU, for the type in which a run's products with base weights are computed: BF16 or FP16, which are
// equally fast, where the weights are stored so or autocast is on, else FP32 or, with tf32, TF32. Math attention runs
// as ordinary matrix products. nullopt where the list lacks the figures.
std::optional<Throughput> throughput_of(const config::GpuSpec& gpu, const config::RunConfig& run,
                                        const arch::Architecture& architecture);

struct ExpectedTime {
  double matrix_seconds = 0;
  double attention_seconds = 0;
  double memory_seconds = 0;  // of what moves bytes rather than computes
  double seconds() const { return matrix_seconds + attention_seconds + memory_seconds; }
};
// Of one step on one device.
ExpectedTime expected_time(const Arithmetic& arithmetic, const Throughput& throughput);

}  // namespace fathom::plan
