// fathom's own CUDA kernels as a table of functions, held by libfathom_cuda_kernels.so. No torch and no CUDA header.
//
// Each does on a whole tensor what its namesake in cpu/kernels.h does on rows: FP32 or BF16 in memory, FP32 arithmetic,
// rounded once. Pointers are the device's; work is queued on `stream`, a cudaStream_t, and nothing is waited for. Each
// returns the cudaError_t of its launch, 0 for success; nothing is launched where there is nothing to do.
#pragma once

#include <cstdint>

#include "cpu/kernels.h"

namespace fathom::ops {

struct CudaKernels {
  using Rows = cpu::Rows;
  // x_NE: N = rows of B*S*H.
  int (*rotate)(Rows in, const float* cos, const float* sin, Rows out, int64_t rows, int64_t heads, int64_t positions,
                int64_t head_size, float direction, void* stream);
  int (*swiglu)(Rows gate, Rows up, Rows out, int64_t elements, void* stream);
  int (*swiglu_backward)(Rows grad_out, Rows gate, Rows up, Rows grad_gate, Rows grad_up, int64_t elements,
                         void* stream);
  // losses[n] = logsumexp(logits[n]) - logits[n][target], 0 where the target is `ignored`, NaN where it is no token.
  // The logits become their gradient times gradient_scale if that is not 0.
  int (*cross_entropy)(Rows logits, const int64_t* targets, int64_t ignored, float gradient_scale, float* losses,
                       int64_t rows, int64_t vocabulary, void* stream);
  const char* (*error_text)(int error);
};

}  // namespace fathom::ops

// The only symbol that libfathom_cuda_kernels.so exports.
extern "C" const fathom::ops::CudaKernels* fathom_cuda_kernels();
