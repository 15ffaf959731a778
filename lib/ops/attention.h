// Causal self-attention with grouped queries: LibTorch's fused kernels, or the plain formula.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "config/run_config.h"
#include "ops/documents.h"
#include "ops/footprint.h"

namespace fathom::ops {

// What computes attention. Flash (Dao et al. 2022, arXiv 2205.14135) and the memory-efficient kernel (Rabe and Staats
// 2021, arXiv 2112.05682) keep O(S) per head for the backward pass; math keeps the S x S probabilities.
enum class AttentionKernel { kMath, kFlash, kMemoryEfficient };

// The kernel that will run on this device for this type and head size. `flash` means kFlash on the CPU and for 16-bit
// types on CUDA, where LibTorch has it; kMemoryEfficient for FP32 on CUDA. Asks LibTorch by two tiny tensors on the
// device, and throws UsageError if the device offers no fused kernel.
AttentionKernel attention_kernel(config::Attention attention, at::Device device, at::ScalarType dtype,
                                 int64_t head_size);
// "flash attention", "memory-efficient attention", "math attention": for plans.
std::string kernel_name(AttentionKernel kernel);

// softmax(q k^T / sqrt(E), causal) v. queries_BSHE; keys_BSKE and values_BSKE with K a divisor of H: query head h reads
// key head h / (H/K). documents: of the one row, none of which sees another; null: every row is one. window: positions
// that a query sees, its own included, as transformers' sliding windows count them; 0: all. Returns [B, S, H*E],
// contiguous.
at::Tensor causal_attention(const at::Tensor& queries_BSHE, const at::Tensor& keys_BSKE, const at::Tensor& values_BSKE,
                            AttentionKernel kernel, const Documents* documents = nullptr, int64_t window = 0);

// The same for the last S positions of a cache: keys_BKCE and values_BKCE hold C >= S positions. No gradients.
at::Tensor cached_attention(const at::Tensor& queries_BSHE, const at::Tensor& keys_BKCE, const at::Tensor& values_BKCE,
                            AttentionKernel kernel, int64_t window = 0);

// Causal attention of one layer over one batch, by its sizes.
struct AttentionSizes {
  AttentionKernel kernel = AttentionKernel::kFlash;
  int64_t rows = 1;              // of the batch
  std::vector<int64_t> lengths;  // of the sequences in which tokens see each other: rows, or documents of the one row
  bool packed = false;           // they are documents
  int64_t heads = 0, key_heads = 0, head_size = 0;
  int64_t window = 0;
  bool amx = false;             // a CPU's tiles compute it
  int64_t threads = 1;          // of a CPU
  bool wide_tiles = false;      // a GPU's shared memory holds 128 rows of a tile of the memory-efficient kernel
  bool output_is_kept = false;  // by the projection that reads it
};
Footprint attention_footprint(const StepSizes& step, const AttentionSizes& sizes);

}  // namespace fathom::ops
