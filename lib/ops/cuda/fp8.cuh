// FP8 (Micikevicius et al. 2022, arXiv 2209.05433): rows as codes and a scale, and matrices of codes turned.
#pragma once

#include "ops/cuda/block.cuh"
#include "ops/cuda/kernels.h"
#include "quant/fp8.h"

namespace fathom::ops::cuda {

// The lowest bits of a code are its fraction; kMost is the largest number, and its code is kMostCode.
struct E4m3 {
  static constexpr int kFraction = 3, kBias = 7;
  static constexpr float kMost = quant::kLargestFp8Code;
  static constexpr unsigned kMostCode = 0x7e;
};
struct E5m2 {
  static constexpr int kFraction = 2, kBias = 15;
  static constexpr float kMost = quant::kLargestE5m2Code;
  static constexpr unsigned kMostCode = 0x7b;
};

// To nearest, ties to even; what is beyond kMost becomes kMost, NaN 0x7f.
template <typename Format>
__device__ uint8_t fp8_code(float value) {
  constexpr int kDropped = 23 - Format::kFraction;
  const unsigned bits = __float_as_uint(value), sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffff;
  const float size = __uint_as_float(magnitude);
  if (value != value) return 0x7f;
  if (size >= Format::kMost) return static_cast<uint8_t>(sign | Format::kMostCode);
  if (magnitude >> 23 > 127 - Format::kBias) {
    const unsigned even = magnitude >> kDropped & 1, rounded = magnitude + (1u << (kDropped - 1)) - 1 + even;
    return static_cast<uint8_t>(sign | ((rounded >> kDropped) - ((127u - Format::kBias) << Format::kFraction)));
  }
  // Below the smallest normal number: in steps of 2^(1 - bias - fraction), rounded as FP32 adds.
  constexpr float kRounder = 12582912;  // 1.5 * 2^23
  const float steps = size * __uint_as_float((127u + Format::kBias - 1 + Format::kFraction) << 23);
  return static_cast<uint8_t>(sign | (__float_as_uint(steps + kRounder) & 0x7f));
}

template <typename Format>
__device__ void fp8_pair(float first, float second, uint8_t* codes) {
#if __CUDA_ARCH__ >= 890
  unsigned short both;
  if constexpr (Format::kFraction == E4m3::kFraction) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(both) : "f"(second), "f"(first));
  }
  codes[0] = static_cast<uint8_t>(both);
  codes[1] = static_cast<uint8_t>(both >> 8);
#else
  codes[0] = fp8_code<Format>(first);
  codes[1] = fp8_code<Format>(second);
#endif
}

// A block takes a row. columns: null, or by what each value is multiplied first.
template <typename Format, typename T, int kCount, int kPacks>
__global__ void __launch_bounds__(kMostRowThreads, 1)
    fp8_rows(const T* in, const float* columns, uint8_t* codes, float* scales, int64_t packs) {
  const int64_t row = blockIdx.x;
  float values[kPacks][kCount] = {};
  float largest = 0;
  for (int k = 0; k < kPacks; ++k) {
    const int64_t pack = threadIdx.x + k * static_cast<int64_t>(blockDim.x);
    if (pack >= packs) break;
    const auto x = reinterpret_cast<const Pack<T, kCount>*>(in)[row * packs + pack];
    for (int i = 0; i < kCount; ++i) values[k][i] = widen(x.at[i]);
    if (columns != nullptr) {
      const auto factors = reinterpret_cast<const Pack<float, kCount>*>(columns)[pack];
      for (int i = 0; i < kCount; ++i) values[k][i] *= factors.at[i];
    }
    for (int i = 0; i < kCount; ++i) largest = Largest()(fabsf(values[k][i]), largest);
  }
  largest = over_block(largest, Largest());
  const float factor = Format::kMost / Largest()(largest, kLeastFp8Row);
  if (threadIdx.x == 0) scales[row] = largest / Format::kMost;
  for (int k = 0; k < kPacks; ++k) {
    const int64_t pack = threadIdx.x + k * static_cast<int64_t>(blockDim.x);
    if (pack >= packs) break;
    Pack<uint8_t, kCount> made;
    for (int i = 0; i < kCount; i += 2) {
      fp8_pair<Format>(values[k][i] * factor, values[k][i + 1] * factor, made.at + i);
    }
    reinterpret_cast<Pack<uint8_t, kCount>*>(codes)[row * packs + pack] = made;
  }
}

// Four bytes from each of four words become a word: the i-th of the i-th.
struct FourWords {
  unsigned at[4];
};
__device__ inline FourWords turned(const FourWords& rows) {
  FourWords columns = {};
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) columns.at[i] |= (rows.at[j] >> (8 * i) & 0xff) << (8 * j);
  }
  return columns;
}

constexpr int kSide = 64, kWords = kSide / 4, kTurnThreads = kWords * kWords;  // of a tile of bytes

// A block turns a tile, a thread four by four bytes of it; rows and columns are whole packs of 16 bytes. ones: null, or
// a 1 for each column.
template <int kPitch>
__global__ void turn_bytes(const uint8_t* in, uint8_t* out, float* ones, int64_t rows, int64_t columns,
                           int64_t tiles_across) {
  using Four = Pack<unsigned, 4>;
  __shared__ unsigned tile[kSide * kPitch], turned_tile[kSide * kPitch];
  const int64_t top = blockIdx.x / tiles_across * kSide, left = blockIdx.x % tiles_across * kSide;
  const int thread = static_cast<int>(threadIdx.x), line = thread / 4, word = thread % 4 * 4;
  const int64_t byte = int64_t{4} * word;
  if (top + line < rows && left + byte < columns) {
    const Four read = *reinterpret_cast<const Four*>(in + (top + line) * columns + left + byte);
    for (int i = 0; i < 4; ++i) tile[line * kPitch + word + i] = read.at[i];
  }
  __syncthreads();
  const int down = thread / kWords, across = thread % kWords;
  FourWords square = {};
  for (int i = 0; i < 4; ++i) square.at[i] = tile[(down * 4 + i) * kPitch + across];
  square = turned(square);
  for (int i = 0; i < 4; ++i) turned_tile[(across * 4 + i) * kPitch + down] = square.at[i];
  __syncthreads();
  if (left + line < columns && top + byte < rows) {
    Four made;
    for (int i = 0; i < 4; ++i) made.at[i] = turned_tile[line * kPitch + word + i];
    *reinterpret_cast<Four*>(out + (left + line) * rows + top + byte) = made;
  }
  if (ones != nullptr && top == 0 && thread < kSide && left + thread < columns) ones[left + thread] = 1;
}

}  // namespace fathom::ops::cuda
