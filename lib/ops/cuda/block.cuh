// What the threads of a block, of whole warps, make together.
#pragma once

#include "ops/cuda/kernels.cuh"

namespace fathom::ops::cuda {

constexpr int kMostWarps = 32;        // of a block
constexpr int kMostRowThreads = 512;  // that share a row in registers: 128 of them for each thread

// join over what each thread has; all of them get it. join: commutative and associative but for rounding.
template <typename Join>
__device__ float over_block(float mine, Join join) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    mine = join(mine, __uint_as_float(__shfl_xor_sync(0xffffffff, __float_as_uint(mine), distance)));
  }
  __shared__ float of_warps[kMostWarps];
  __syncthreads();  // what was joined before has been read
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = mine;
  __syncthreads();
  float all = of_warps[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) all = join(all, of_warps[warp]);
  return all;
}

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Largest {
  __device__ float operator()(float a, float b) const { return a > b ? a : b; }
};

}  // namespace fathom::ops::cuda
