// The norm of many tensors together, and the factor that clips them: sums of squares of equal chunks, which a second
// kernel adds up. No sum depends on which block is done first.
#pragma once

#include "ops/cuda/block.cuh"
#include "ops/cuda/chunks.cuh"
#include "ops/cuda/kernels.h"

namespace fathom::ops::cuda {

constexpr int kSquareThreads = 256;
constexpr int kSquareChunk = static_cast<int>(kSquaresPerSum);

struct SquaredRecord {
  const void* values;
  int64_t elements;
  unsigned chunks_end, narrow;  // narrow: BF16
};

constexpr int kSquaredAtOnce = 512;
struct SquaresArguments {
  float* sums;  // one of each of the grid's chunks
  int count;
  SquaredRecord tensors[kSquaredAtOnce];
};
static_assert(sizeof(SquaresArguments) <= kParameterBytes);

// A thread's share of the sum: whole accesses to memory, and what lies before the first and behind the last of them.
template <typename T>
__device__ float share_of_squares(const T* values, int count) {
  constexpr int kBytes = 16, kCount = kBytes / static_cast<int>(sizeof(T));
  const auto beyond = static_cast<int>(reinterpret_cast<uintptr_t>(values) % kBytes);
  const int until_access = beyond == 0 ? 0 : (kBytes - beyond) / static_cast<int>(sizeof(T));
  const int head = until_access < count ? until_access : count, packs = (count - head) / kCount;
  const auto* const whole = reinterpret_cast<const Pack<T, kCount>*>(values + head);
  const auto thread = static_cast<int>(threadIdx.x);
  float sum = 0;
  for (int pack = thread; pack < packs; pack += kSquareThreads) {
    const Pack<T, kCount> some = whole[pack];
    float of_pack = 0;
    for (int i = 0; i < kCount; ++i) of_pack = fmaf(widen(some.at[i]), widen(some.at[i]), of_pack);
    sum += of_pack;
  }
  static_assert(2 * kCount <= kSquareThreads);
  const int loose = thread < head ? thread : packs * kCount + thread;
  if (loose < count) sum = fmaf(widen(values[loose]), widen(values[loose]), sum);
  return sum;
}

__global__ void __launch_bounds__(kSquareThreads, 4)
    sums_of_squares(const __grid_constant__ SquaresArguments arguments) {
  const Chunk chunk = chunk_of<kSquareChunk>(arguments.tensors, arguments.count);
  const SquaredRecord& tensor = arguments.tensors[chunk.place];
  const float share = tensor.narrow != 0
                          ? share_of_squares(static_cast<const BFloat16*>(tensor.values) + chunk.first, chunk.count)
                          : share_of_squares(static_cast<const float*>(tensor.values) + chunk.first, chunk.count);
  const float sum = over_block(share, Sum());
  if (threadIdx.x == 0) arguments.sums[blockIdx.x] = sum;
}

constexpr int kSumThreads = 1024;  // a power of two

// One block. NaN stays NaN.
__global__ void norm_of_sums(const float* sums, int64_t count, double max_norm, double loss_scale, float* total,
                             float* factor) {
  __shared__ double shared[kSumThreads];
  double share = 0;
  for (int64_t i = threadIdx.x; i < count; i += kSumThreads) share += sums[i];
  shared[threadIdx.x] = share;
  __syncthreads();
  for (unsigned distance = kSumThreads / 2; distance > 0; distance /= 2) {
    if (threadIdx.x < distance) shared[threadIdx.x] += shared[threadIdx.x + distance];
    __syncthreads();
  }
  if (threadIdx.x > 0) return;
  const auto norm = static_cast<float>(sqrt(shared[0]) / loss_scale);
  *total = norm;
  if (factor == nullptr) return;
  const double wanted = max_norm > 0 ? max_norm / (norm + 1e-6) : 1;
  *factor = static_cast<float>((wanted > 1 ? 1 : wanted) / loss_scale);
}

}  // namespace fathom::ops::cuda
