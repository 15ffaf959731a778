// Expected time of a step on named hardware: each kind of work at what the hardware does of it in a second, one kind
// after the other, as one stream of kernels runs them. By the roofline that is a stated share of the data sheet; of
// hardware that was measured it is what was measured.
#pragma once

#include <optional>
#include <string>

#include "arch/run.h"
#include "config/devices.h"
#include "plan/time/arithmetic.h"

namespace fathom::plan {

// What lies between the GPUs of a run.
struct Interconnect {
  double link_bytes_per_second = 0;     // to the other GPUs of a node, one way
  double network_bytes_per_second = 0;  // to those of other nodes, one way; 0: there are none
  int64_t gpus_per_node = 1;
};

// Between a GPU and its host's memory, where optimizer states or weights lie there.
struct HostLink {
  double bytes_per_second = 0;  // one way, as it is sold; both ways at once
  double hides = 0;             // of the time that a step computes, during which copies run
};

// What hardware did of each kind of work in a second; 0 where there was none of a kind.
struct Speeds {
  double matrix_flops_per_second = 0, attention_flops_per_second = 0, bytes_per_second = 0;
};

// What hardware does in a second, as it is sold or as it was measured.
struct Throughput {
  double matrix_flops_per_second = 0;     // dense, in the type in which the run computes
  double attention_flops_per_second = 0;  // likewise
  double bytes_per_second = 0;            // of its memory
  double matrix_efficiency = 1;           // the share of each that a run is taken to reach; 1 for measured figures
  double attention_efficiency = 1;
  double memory_efficiency = 1;
  std::string source;  // "configs/gpus.yaml", "calibrated on 2026-11-21"; or see plan/time/operator_times.h
  // Where operators were timed: of the parts of a step, which differ by how many small kernels they have.
  std::optional<StepParts<Speeds>> parts;
  std::optional<Interconnect> interconnect;  // of a run of several processes, where it is known
  std::optional<HostLink> host_link;         // of a run with offload_optimizer or offload_weights, likewise
};

// The shares of a data sheet's peaks that a training step is taken to reach, the same for every GPU. Large matrix
// products reach 60 to 80 % of the dense peak on A100 and H100, flash attention 2 about 35 % (H100) to 65 % (A100)
// forward and less backward (Dao 2023, arXiv 2307.08691; Shah et al. 2024, arXiv 2407.08608), element by element
// kernels 80 to 90 % of the bandwidth.
inline constexpr double kMatrixEfficiency = 0.65;
inline constexpr double kAttentionEfficiency = 0.35;
inline constexpr double kMemoryEfficiency = 0.8;
// Of a link of PCIe, large copies from pinned memory: 25 of 31.5 GB/s (4.0, 16 lanes) in NVIDIA's bandwidthTest.
inline constexpr double kHostLinkEfficiency = 0.8;

// Of a listed GPU, for the type in which a run's products with base weights are computed: BF16 or FP16, which are
// equally fast, where the weights are stored so or autocast is on, else FP32 or, with tf32, TF32. Math attention runs
// as ordinary matrix products. nullopt where the list lacks the figures; without an interconnect where it lacks those.
std::optional<Throughput> throughput_of(const config::GpuSpec& gpu, const arch::Run& run);

// As operators were measured, else as listed; what lies between GPUs as listed.
std::optional<Throughput> speed_of(const std::optional<Throughput>& measured, const std::optional<Throughput>& listed);

// Of what one device computes.
struct ComputingTime {
  double matrix_seconds = 0;
  double attention_seconds = 0;
  double memory_seconds = 0;  // of what moves bytes rather than computes
  double seconds() const { return matrix_seconds + attention_seconds + memory_seconds; }
};
ComputingTime operator+(const ComputingTime& a, const ComputingTime& b);

struct ExpectedTime {
  StepParts<ComputingTime> parts;
  double exposed_seconds = 0;  // of communication, while nothing computes (plan/time/communication.h)
  double host_seconds = 0;     // of copies from and to the host's memory, likewise
  ComputingTime computing() const { return parts.whole(); }
  double seconds() const { return computing().seconds() + exposed_seconds + host_seconds; }
};
ExpectedTime operator+(const ExpectedTime& a, const ExpectedTime& b);
// What copies of so many bytes one way add to a step that computes so long; 0 where the link is not known.
double exposed_host_seconds(int64_t bytes, double computing_seconds, const Throughput& throughput);
// Of work in a phase of a step.
ComputingTime computing_time(const Arithmetic& arithmetic, memory::Phase phase, const Throughput& throughput);
// Of what one device computes in a step.
ExpectedTime expected_time(const StepArithmetic& arithmetic, const Throughput& throughput);

}  // namespace fathom::plan
