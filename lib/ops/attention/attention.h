// Causal self-attention with grouped queries: LibTorch's fused kernels, or the plain formula.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "config/run_config.h"
#include "footprint/attention.h"
#include "ops/documents.h"

namespace fathom::ops {

// The kernel that will run on this device for this type and head size. `flash` means kFlash on the CPU and for 16-bit
// types on CUDA, where LibTorch has it; kMemoryEfficient for FP32 on CUDA. Asks LibTorch by two tiny tensors on the
// device, and throws UsageError if the device offers no fused kernel, or cuDNN's not for this type, head size and
// sinks.
footprint::AttentionKernel attention_kernel(config::Attention attention, at::Device device, at::ScalarType dtype,
                                            int64_t head_size, bool sinks = false);
// softmax(q k^T / sqrt(E), causal) v. queries_BSHE; keys_BSKE and values_BSKE with K a divisor of H: query head h reads
// key head h / (H/K). documents: of the one row, none of which sees another; null: every row is one. window: positions
// that a query sees, its own included, as transformers' sliding windows count them; 0: all. sinks_H: as
// ops/attention/sinks.h has them, which may need a gradient; undefined: none. Under sinks kCudnn is computed by flash.
// Returns [B, S, H*E], contiguous.
at::Tensor causal_attention(const at::Tensor& queries_BSHE, const at::Tensor& keys_BSKE, const at::Tensor& values_BSKE,
                            footprint::AttentionKernel kernel, const Documents* documents = nullptr, int64_t window = 0,
                            const at::Tensor& sinks_H = {});

// The same for the last S positions of a cache: keys_BKCE and values_BKCE hold C >= S positions. No gradients. kCudnn
// is computed by flash: answers have a new length each. Under sinks fewer than all positions go by the formula.
at::Tensor cached_attention(const at::Tensor& queries_BSHE, const at::Tensor& keys_BKCE, const at::Tensor& values_BKCE,
                            footprint::AttentionKernel kernel, int64_t window = 0, const at::Tensor& sinks_H = {});

}  // namespace fathom::ops
