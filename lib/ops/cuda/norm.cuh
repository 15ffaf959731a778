// RMSNorm (ops/norm.h) of rows that are whole packs: a block takes a row, and a thread keeps its packs in registers.
#pragma once

#include "ops/cuda/block.cuh"

namespace fathom::ops::cuda {

// packs: of a row, at most kPacks for each thread.
template <typename T, typename Weight, typename Out, int kCount, int kPacks>
__global__ void __launch_bounds__(kMostRowThreads, 1)
    rms_norm(const T* in, const Weight* weight, float offset, float eps, Out* out, float* rstd, int64_t packs) {
  using P = Pack<T, kCount>;
  const int64_t row = blockIdx.x;
  P x[kPacks] = {};
  float squares = 0;
  for (int k = 0; k < kPacks; ++k) {
    const int64_t pack = threadIdx.x + k * static_cast<int64_t>(blockDim.x);
    if (pack >= packs) break;
    x[k] = reinterpret_cast<const P*>(in)[row * packs + pack];
    for (int i = 0; i < kCount; ++i) squares += widen(x[k].at[i]) * widen(x[k].at[i]);
  }
  const float scale = 1 / sqrtf(over_block(squares, Sum()) / static_cast<float>(packs * kCount) + eps);
  if (threadIdx.x == 0) rstd[row] = scale;
  for (int k = 0; k < kPacks; ++k) {
    const int64_t pack = threadIdx.x + k * static_cast<int64_t>(blockDim.x);
    if (pack >= packs) break;
    const auto w = reinterpret_cast<const Pack<Weight, kCount>*>(weight)[pack];
    Pack<Out, kCount> o;
    for (int i = 0; i < kCount; ++i) {
      o.at[i] = rounded<Out>(widen(x[k].at[i]) * scale * (widen(w.at[i]) + offset));
    }
    reinterpret_cast<Pack<Out, kCount>*>(out)[row * packs + pack] = o;
  }
}

// Rows block, block + gridDim and so on; sums: null, or a row of this block's share of the weight's gradient.
// grad_stream: null, or what is added to the gradient of the rows.
template <typename T, typename Weight, typename Out, int kCount, int kPacks>
__global__ void __launch_bounds__(kMostRowThreads, 1)
    rms_norm_backward(const Out* grad_out, const T* in, const Weight* weight, float offset, const float* rstd,
                      const T* grad_stream, T* grad_in, float* sums, int64_t rows, int64_t packs) {
  using P = Pack<T, kCount>;
  float of_weight[kPacks * kCount] = {};
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float scale = rstd[row];
    P x[kPacks] = {};
    Pack<Out, kCount> gradient[kPacks] = {};
    float product = 0;
    for (int k = 0; k < kPacks; ++k) {
      const int64_t pack = threadIdx.x + k * static_cast<int64_t>(blockDim.x);
      if (pack >= packs) break;
      x[k] = reinterpret_cast<const P*>(in)[row * packs + pack];
      gradient[k] = reinterpret_cast<const Pack<Out, kCount>*>(grad_out)[row * packs + pack];
      const auto w = reinterpret_cast<const Pack<Weight, kCount>*>(weight)[pack];
      for (int i = 0; i < kCount; ++i) {
        const float normed = widen(x[k].at[i]) * scale, upstream = widen(gradient[k].at[i]);
        product += upstream * (widen(w.at[i]) + offset) * normed;
        of_weight[k * kCount + i] += upstream * normed;
      }
    }
    const float mean = over_block(product, Sum()) / static_cast<float>(packs * kCount);
    for (int k = 0; k < kPacks; ++k) {
      const int64_t pack = threadIdx.x + k * static_cast<int64_t>(blockDim.x);
      if (pack >= packs) break;
      const auto w = reinterpret_cast<const Pack<Weight, kCount>*>(weight)[pack];
      P added = {};
      if (grad_stream != nullptr) added = reinterpret_cast<const P*>(grad_stream)[row * packs + pack];
      P made;
      for (int i = 0; i < kCount; ++i) {
        const float normed = widen(x[k].at[i]) * scale;
        const float through = widen(gradient[k].at[i]) * (widen(w.at[i]) + offset) - normed * mean;
        made.at[i] = rounded<T>(scale * through + widen(added.at[i]));
      }
      reinterpret_cast<P*>(grad_in)[row * packs + pack] = made;
    }
  }
  if (sums == nullptr) return;
  for (int k = 0; k < kPacks; ++k) {
    const int64_t pack = threadIdx.x + k * static_cast<int64_t>(blockDim.x);
    if (pack >= packs) break;
    for (int i = 0; i < kCount; ++i) sums[(blockIdx.x * packs + pack) * kCount + i] = of_weight[k * kCount + i];
  }
}

// A block adds up kWarp columns, each of its warps every kMostWarps-th row of them.
template <typename T>
__global__ void sum_rows(const float* rows, T* sum, int64_t count, int64_t width) {
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarp + lane;
  float mine = 0;
  for (int64_t row = warp; column < width && row < count; row += kMostWarps) mine += rows[row * width + column];
  __shared__ float of_warps[kMostWarps][kWarp];
  of_warps[warp][lane] = mine;
  __syncthreads();
  if (warp > 0 || column >= width) return;
  float all = 0;
  for (int i = 0; i < kMostWarps; ++i) all += of_warps[i][lane];
  sum[column] = rounded<T>(all);
}

}  // namespace fathom::ops::cuda
