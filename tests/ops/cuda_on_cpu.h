// Enough of CUDA's language for lib/ops/cuda to be compiled as C++ and played on the CPU: the threads of a block take
// turns from one __syncthreads to the next, and blocks come one after another. Include this before launch.cu.
#pragma once

#include <ucontext.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
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
inline dim3 threadIdx, blockIdx, blockDim, gridDim;

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorInvalidConfiguration = 9 };
inline const char* cudaGetErrorString(cudaError_t) { return "invalid configuration argument"; }

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  cudaStream_t stream = nullptr;
};

// The threads of a block, each with a stack of its own. In every other turn the last comes first: what one reads of
// another without a __syncthreads between them is wrong in one of the orders.
class PlayedBlock {
 public:
  explicit PlayedBlock(unsigned threads) : players_(threads) {}
  PlayedBlock(const PlayedBlock&) = delete;
  PlayedBlock& operator=(const PlayedBlock&) = delete;

  // Plays them all to their ends.
  void play(const std::function<void()>& kernel) {
    kernel_ = &kernel;
    playing = this;
    for (Player& player : players_) {
      getcontext(&player.context);
      player.context.uc_stack.ss_sp = player.stack.get();
      player.context.uc_stack.ss_size = kStackBytes;
      player.context.uc_link = &turns_;
      makecontext(&player.context, begin, 0);
      player.ended = false;
    }
    const auto count = static_cast<unsigned>(players_.size());
    for (unsigned turn = 0, ended = 0; ended == 0; ++turn) {
      for (unsigned i = 0; i < count; ++i) {
        threadIdx.x = turn % 2 == 0 ? i : count - 1 - i;
        swapcontext(&turns_, &players_[threadIdx.x].context);
        ended += players_[threadIdx.x].ended ? 1 : 0;
      }
      if (ended != 0 && ended != count) {
        std::cerr << "a __syncthreads that not all threads of a block come to\n";
        std::abort();
      }
    }
  }
  void wait() { swapcontext(&players_[threadIdx.x].context, &turns_); }

  static inline PlayedBlock* playing = nullptr;

 private:
  static constexpr size_t kStackBytes = size_t{256} << 10;
  struct Player {
    ucontext_t context;
    std::unique_ptr<char[]> stack{new char[kStackBytes]};
    bool ended = false;
  };

  static void begin() {
    (*playing->kernel_)();
    playing->players_[threadIdx.x].ended = true;
  }

  ucontext_t turns_{};
  std::vector<Player> players_;
  const std::function<void()>* kernel_ = nullptr;
};
inline void __syncthreads() { PlayedBlock::playing->wait(); }

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
  PlayedBlock block(threads);
  blockDim.x = threads;
  gridDim.x = blocks;
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) block.play([&] { kernel(arguments...); });
  return cudaSuccess;
}
// NOLINTEND
