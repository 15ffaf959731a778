// Enough of CUDA's language for lib/ops/cuda to be compiled as C++ and played on the CPU: every thread of a block is a
// thread, and blocks come one after another. Include this before launch.cu.
#pragma once

#include <atomic>
#include <barrier>
#include <bit>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

// NOLINTBEGIN: names are CUDA's
#define __device__
#define __global__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(threads, blocks)

struct dim3 {
  dim3(unsigned count = 1) : x(count) {}
  unsigned x;
};
inline thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorInvalidConfiguration = 9 };
inline const char* cudaGetErrorString(cudaError_t) { return "invalid configuration argument"; }

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  cudaStream_t stream = nullptr;
};

inline std::barrier<>* block_barrier = nullptr;  // of the kernel that is being played
inline void __syncthreads() { block_barrier->arrive_and_wait(); }

inline unsigned exchanged[1024];  // one of each thread
// Of warps of which all threads take part, and their whole block with them.
inline unsigned __shfl_xor_sync(unsigned, unsigned value, int distance) {
  exchanged[threadIdx.x] = value;
  __syncthreads();
  const unsigned other = exchanged[threadIdx.x ^ static_cast<unsigned>(distance)];
  __syncthreads();
  return other;
}

inline float __fmul_rn(float a, float b) { return a * b; }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __fadd_rn(float a, float b) { return a + b; }

// How many blocks the last launch had, and with how many threads; how many launches there were.
inline unsigned played_blocks = 0, played_threads = 0, played_launches = 0;

template <typename... Parameters>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Parameters... arguments) {
  const unsigned blocks = config->gridDim.x, threads = config->blockDim.x;
  if (blocks == 0 || threads == 0 || threads > 1024) return cudaErrorInvalidConfiguration;
  played_blocks = blocks;
  played_threads = threads;
  ++played_launches;
  std::barrier<> barrier(threads);
  block_barrier = &barrier;
  std::vector<std::jthread> players;
  for (unsigned thread = 0; thread < threads; ++thread) {
    players.emplace_back([=, &barrier] {
      threadIdx.x = thread;
      blockDim.x = threads;
      gridDim.x = blocks;
      for (unsigned block = 0; block < blocks; ++block) {
        blockIdx.x = block;
        kernel(arguments...);
        barrier.arrive_and_wait();
      }
    });
  }
  return cudaSuccess;
}
// NOLINTEND
