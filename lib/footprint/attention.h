// What attention keeps and takes, by its sizes and by what computes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "footprint/footprint.h"

namespace fathom::footprint {

// What computes attention. Flash (Dao et al. 2022, arXiv 2205.14135) and the memory-efficient kernel (Rabe and Staats
// 2021, arXiv 2112.05682) keep O(S) per head for the backward pass, cuDNN's kernel too; math keeps the S x S
// probabilities. Documents in one row, windows that matter and rows of one token are flash's where it says
// kCudnn.
enum class AttentionKernel { kMath, kFlash, kMemoryEfficient, kCudnn };

// Of LibTorch's flash attention on CUDA; heads beyond it are for the memory-efficient kernel.
inline constexpr int64_t kLargestFlashHead = 256;

// "flash attention", "memory-efficient attention", "math attention", "cuDNN's attention": for plans.
std::string kernel_name(AttentionKernel kernel);

// Causal attention of one layer over one batch, by its sizes.
struct AttentionSizes {
  AttentionKernel kernel = AttentionKernel::kFlash;
  int64_t rows = 1;              // of the batch
  std::vector<int64_t> lengths;  // of the sequences in which tokens see each other: rows, or documents of the one row
  bool packed = false;           // they are documents
  int64_t heads = 0, key_heads = 0, head_size = 0;
  int64_t window = 0;
  bool sinks = false;  // ops/attention/sinks.h
  bool trains_sinks = false;
  bool amx = false;             // a CPU's tiles compute it
  int64_t threads = 1;          // of a CPU
  int64_t multiprocessors = 0;  // of a GPU
  bool wide_tiles = false;      // a GPU's shared memory holds 128 rows of a tile of the memory-efficient kernel
  bool output_is_kept = false;  // by the projection that reads it
  bool differentiated = true;   // queries, keys or values need gradients
};
Footprint attention_footprint(const StepSizes& step, const AttentionSizes& sizes);

}  // namespace fathom::footprint
