// Empty kernels for flash-attn's host code: a phantom GPU computes nothing, and memory is asked for by host code alone.
#include <cuda_runtime.h>
#include <c10/cuda/CUDAException.h>
#include <cutlass/numeric_types.h>

#include "flash.h"

template <typename Number, int kHeadSize, bool kIsCausal>
void run_mha_fwd_(Flash_fwd_params&, cudaStream_t) {}
template <typename Number, int kHeadSize, bool kIsCausal>
void run_mha_fwd_splitkv_dispatch(Flash_fwd_params&, cudaStream_t) {}
template <typename Number, int kHeadSize, bool kIsCausal>
void run_mha_bwd_(Flash_bwd_params&, cudaStream_t) {}

#define EMPTY(number, head_size, is_causal)                                                              \
  template void run_mha_fwd_<number, head_size, is_causal>(Flash_fwd_params&, cudaStream_t);                 \
  template void run_mha_fwd_splitkv_dispatch<number, head_size, is_causal>(Flash_fwd_params&, cudaStream_t); \
  template void run_mha_bwd_<number, head_size, is_causal>(Flash_bwd_params&, cudaStream_t);
#define EMPTY_OF_SIZE(head_size)                \
  EMPTY(cutlass::half_t, head_size, true)       \
  EMPTY(cutlass::half_t, head_size, false)      \
  EMPTY(cutlass::bfloat16_t, head_size, true)   \
  EMPTY(cutlass::bfloat16_t, head_size, false)

EMPTY_OF_SIZE(32)
EMPTY_OF_SIZE(64)
EMPTY_OF_SIZE(96)
EMPTY_OF_SIZE(128)
EMPTY_OF_SIZE(160)
EMPTY_OF_SIZE(192)
EMPTY_OF_SIZE(224)
EMPTY_OF_SIZE(256)
