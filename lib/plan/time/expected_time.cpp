// Divides work by speed.
#include "plan/time/expected_time.h"

#include <algorithm>

#include "plan/host.h"
#include "schedule/inputs.h"

namespace fathom::plan {

namespace {

std::optional<Interconnect> interconnect_of(const config::GpuSpec& gpu, const config::RunConfig& run) {
  const bool in_node = static_cast<double>(run.num_processes) <= gpu.gpus_per_node;
  if (run.num_processes == 1 || gpu.gpus_per_node == 0 || gpu.link_bytes_per_second == 0) return std::nullopt;
  if (!in_node && gpu.network_bytes_per_second == 0) return std::nullopt;
  return Interconnect{gpu.link_bytes_per_second, gpu.network_bytes_per_second, static_cast<int64_t>(gpu.gpus_per_node)};
}

// Layers come during all of a step; states during the backward pass, two thirds of it at least, or behind it.
std::optional<HostLink> host_link_of(const config::GpuSpec& gpu, const config::RunConfig& run) {
  if (!offloads(run) || gpu.host_link_bytes_per_second == 0) return std::nullopt;
  return HostLink{gpu.host_link_bytes_per_second, run.offload_weights ? 1 : run.optimizer_in_backward ? 2.0 / 3 : 0};
}

}  // namespace

std::optional<Throughput> throughput_of(const config::GpuSpec& gpu, const arch::Run& run) {
  const DType type = run.precision.computed;
  const bool narrow = size_of(type) == 2;
  const double in_16_bits = type == DType::kF16 && gpu.fp16_flops > 0 ? gpu.fp16_flops : gpu.bf16_flops;
  const double products = narrow ? in_16_bits : run.config.tf32 ? gpu.tf32_flops : gpu.fp32_flops;
  const bool math = run.config.attn_implementation == config::Attention::kMath;
  const double attention = narrow || math ? products : gpu.fp32_flops;  // the fused kernel for FP32 knows no TF32
  if (products <= 0 || attention <= 0 || gpu.memory_bytes_per_second <= 0) return std::nullopt;
  Throughput throughput;
  throughput.matrix_flops_per_second = products;
  throughput.attention_flops_per_second = attention;
  throughput.bytes_per_second = gpu.memory_bytes_per_second;
  throughput.matrix_efficiency = kMatrixEfficiency;
  throughput.attention_efficiency = math ? kMatrixEfficiency : kAttentionEfficiency;
  throughput.memory_efficiency = kMemoryEfficiency;
  throughput.source = "configs/gpus.yaml";
  throughput.interconnect = interconnect_of(gpu, run.config);
  throughput.host_link = host_link_of(gpu, run.config);
  return throughput;
}

std::optional<Throughput> speed_of(const std::optional<Throughput>& measured, const std::optional<Throughput>& listed) {
  std::optional<Throughput> speed = measured ? measured : listed;
  if (speed && listed) speed->interconnect = listed->interconnect;
  if (speed && listed) speed->host_link = listed->host_link;
  return speed;
}

ComputingTime operator+(const ComputingTime& a, const ComputingTime& b) {
  return {a.matrix_seconds + b.matrix_seconds, a.attention_seconds + b.attention_seconds,
          a.memory_seconds + b.memory_seconds};
}

ExpectedTime operator+(const ExpectedTime& a, const ExpectedTime& b) {
  return {a.parts + b.parts, a.exposed_seconds + b.exposed_seconds, a.host_seconds + b.host_seconds};
}

ComputingTime computing_time(const Arithmetic& arithmetic, memory::Phase phase, const Throughput& throughput) {
  const Speeds of_part = throughput.parts ? throughput.parts->of(phase) : Speeds{};
  // of_step: where the part had no such work when it was timed.
  const auto seconds = [](int64_t work, double of_part, double of_step) {
    return work == 0 ? 0.0 : static_cast<double>(work) / (of_part > 0 ? of_part : of_step);
  };
  return {seconds(arithmetic.matrix_flops, of_part.matrix_flops_per_second,
                  throughput.matrix_flops_per_second * throughput.matrix_efficiency),
          seconds(arithmetic.attention_flops, of_part.attention_flops_per_second,
                  throughput.attention_flops_per_second * throughput.attention_efficiency),
          seconds(arithmetic.bytes_moved, of_part.bytes_per_second,
                  throughput.bytes_per_second * throughput.memory_efficiency)};
}

ExpectedTime expected_time(const StepArithmetic& arithmetic, const Throughput& throughput) {
  ExpectedTime time;
  for (const memory::Phase phase : StepArithmetic::kPhases) {
    time.parts.of(phase) = computing_time(arithmetic.of(phase), phase, throughput);
  }
  return time;
}

double exposed_host_seconds(int64_t bytes, double computing_seconds, const Throughput& throughput) {
  if (!throughput.host_link) return 0;
  const HostLink& link = *throughput.host_link;
  const double seconds = static_cast<double>(bytes) / (link.bytes_per_second * kHostLinkEfficiency);
  return std::max(0.0, seconds - computing_seconds * link.hides);
}

}  // namespace fathom::plan
