// Divides work by speed.
#include "plan/expected_time.h"

#include "train/inputs.h"

namespace fathom::plan {

std::optional<Throughput> throughput_of(const config::GpuSpec& gpu, const config::RunConfig& run,
                                        const model::ModelShape& shape) {
  const bool narrow = run.bf16 || size_of(train::storage_dtype(run, shape)) == 2;
  const double flops = narrow ? gpu.bf16_flops : gpu.fp32_flops;
  if (flops <= 0 || gpu.memory_bytes_per_second <= 0) return std::nullopt;
  const bool math = run.attn_implementation == config::Attention::kMath;
  Throughput throughput;
  throughput.matrix_flops_per_second = throughput.attention_flops_per_second = flops;
  throughput.bytes_per_second = gpu.memory_bytes_per_second;
  throughput.matrix_efficiency = kMatrixEfficiency;
  throughput.attention_efficiency = math ? kMatrixEfficiency : kAttentionEfficiency;
  throughput.memory_efficiency = kMemoryEfficiency;
  throughput.source = "configs/gpus.yaml";
  return throughput;
}

ExpectedTime expected_time(const Arithmetic& arithmetic, const Throughput& throughput) {
  const auto seconds = [](int64_t work, double per_second, double efficiency) {
    return work == 0 ? 0.0 : static_cast<double>(work) / (per_second * efficiency);
  };
  return {seconds(arithmetic.matrix_flops, throughput.matrix_flops_per_second, throughput.matrix_efficiency),
          seconds(arithmetic.attention_flops, throughput.attention_flops_per_second, throughput.attention_efficiency),
          seconds(arithmetic.bytes_moved, throughput.bytes_per_second, throughput.memory_efficiency)};
}

}  // namespace fathom::plan
