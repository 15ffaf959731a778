// GPUs that a run can be planned for: configs/gpus.yaml.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace fathom::config {

struct GpuSpec {
  std::string name;                // as the list calls it: "H100"
  std::string product;             // as CUDA calls it: "NVIDIA H100 80GB HBM3"
  std::string compute_capability;  // "9.0"
  int64_t multiprocessors = 0;
  int64_t memory_bytes = 0;  // as CUDA reports it (cudaDeviceProp::totalGlobalMem)
  // As the vendor sells it, dense (without sparsity); 0: not listed.
  double memory_bytes_per_second = 0;
  double fp32_flops = 0, tf32_flops = 0, bf16_flops = 0, fp8_flops = 0, int8_ops = 0;  // per second
  double fp16_flops = 0;                // of GPUs without BF16; 0: FP16 is as fast as BF16
  double link_bytes_per_second = 0;     // to the other GPUs of its node, one way
  double network_bytes_per_second = 0;  // to those of other nodes, one way, its share of what the node has
  double gpus_per_node = 0;
  double host_link_bytes_per_second = 0;  // to the host's memory, one way
  double price_per_hour = 0;              // US dollars
  double desktop_bytes = 0;               // of its memory, that a desktop is taken to need; 0: no card for screens

  bool operator==(const GpuSpec&) const = default;
};

// Whether a GPU of this compute capability ("9.0") multiplies in BF16: from 8.0 on.
bool has_bf16(const std::string& compute_capability);
// In FP8: from 8.9 on.
bool has_fp8(const std::string& compute_capability);

// Whether LibTorch 2.11 with CUDA 13 has kernels for it: from 7.5 on.
bool is_supported(const std::string& compute_capability);

// Reads the list. Throws UsageError that tells everything that is wrong with it.
std::map<std::string, GpuSpec> load_gpus(const std::filesystem::path& yaml);
// The GPU of that name, or of CUDA's, whatever the case, the separators and words of the maker before it ("4090",
// "rtx4090"). Throws UsageError that names the known ones, or those that are called so where they are several.
const GpuSpec& find_gpu(const std::map<std::string, GpuSpec>& gpus, const std::string& name);

}  // namespace fathom::config
