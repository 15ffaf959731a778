// Matrices from their codes, in one pass: a thread reads the codes of a few packs, then writes these packs.
//
// Packs that neighbouring threads write at a time are neighbours, so that both are read and written in whole lines; the
// arithmetic of a value stays below a dozen instructions, which memory outlasts.
#pragma once

#include "ops/cuda/kernels.cuh"
#include "ops/cuda/kernels.h"

namespace fathom::ops::cuda {

constexpr int kDequantizeThreads = 256;
constexpr int kPacksEach = 4;  // of a thread: so many reads are under way at once
constexpr int64_t kPacksOfBlock = int64_t{kDequantizeThreads} * kPacksEach;
constexpr int64_t kMostPerScale = 1 << 30;  // so that 32 bits tell where in a row, or beyond it, a block's values lie
constexpr unsigned kFourBitNumbers = 16;

// Codes as one access to memory reads them.
template <int kBytes>
struct WordOf;
template <>
struct WordOf<1> {
  using Type = uint8_t;
};
template <>
struct WordOf<2> {
  using Type = uint16_t;
};
template <>
struct WordOf<4> {
  using Type = uint32_t;
};
template <>
struct WordOf<8> {
  using Type = uint64_t;
};

// Each format says how many codes a byte has, which of a word's codes is the i-th, which number it stands for, and the
// scale of a value, which lies `beyond` values behind the block of threads' first.
struct Int8Codes {
  static constexpr int kPerByte = 1;
  int64_t columns;
  template <typename Word>
  __device__ unsigned code(Word word, int i) const {
    return static_cast<unsigned>(word >> (8 * i)) & 0xff;
  }
  __device__ float number(unsigned code, const float*) const { return static_cast<float>(static_cast<int8_t>(code)); }
  // 64 bits are divided once for a block of threads.
  __device__ float scale(const CodedMatrix& matrix, int64_t first, unsigned beyond) const {
    const int64_t row = first / columns;
    const unsigned rows = (static_cast<unsigned>(first - row * columns) + beyond) / static_cast<unsigned>(columns);
    return static_cast<const float*>(matrix.scales)[row + rows];
  }
};

// E4M3 (quant/fp8.h): its sign, and its exponent and fraction to where FP32's begin, then times 2^(127 - 7) for the
// other bias. That is exact, for subnormal codes too.
struct Fp8Codes : Int8Codes {
  __device__ float number(unsigned code, const float*) const {
    const unsigned moved = static_cast<unsigned>(static_cast<int>(code << 24) >> 4);  // the sign into five bits
    return (code & 0x7f) == 0x7f ? NAN : __uint_as_float(moved & 0x87f00000) * 0x1p120f;
  }
};

// NF4 has the first of a byte's codes in the high half, INT4 and MXFP4 in the low one. What they stand for is looked up
// in shared memory: 16 numbers lie in 16 banks, so that no threads of a warp wait for each other, as they would at a
// table of bytes' pairs, or at constant memory with any two different codes.
template <bool kHighFirst>
struct FourBitCodes {
  static constexpr int kPerByte = 2;
  int64_t block_bits;  // a block has 1 << block_bits values
  template <typename Word>
  __device__ unsigned code(Word word, int i) const {
    return static_cast<unsigned>(word >> (4 * (kHighFirst ? i ^ 1 : i))) & 0xf;
  }
  __device__ float number(unsigned code, const float* numbers) const { return numbers[code]; }
  __device__ float scale(const CodedMatrix& matrix, int64_t first, unsigned beyond) const {
    const int64_t block = (first + beyond) >> block_bits;
    if (matrix.dynamic_256 == nullptr) return static_cast<const float*>(matrix.scales)[block];
    const float number = matrix.dynamic_256[static_cast<const uint8_t*>(matrix.scales)[block]];
    if (matrix.outer_scales == nullptr) return number;
    // A product and a sum, each rounded.
    return __fadd_rn(__fmul_rn(number, matrix.outer_scales[block / kScalesPerOuter]), *matrix.offset);
  }
};

// Packs of kCount values, which share a scale.
template <typename T, int kCount, typename Codes>
__global__ void dequantize(CodedMatrix matrix, Codes codes, T* out, int64_t packs) {
  using Word = typename WordOf<(kCount + Codes::kPerByte - 1) / Codes::kPerByte>::Type;
  __shared__ float numbers[kFourBitNumbers];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kPacksOfBlock;
  const auto last = static_cast<unsigned>(packs - first < kPacksOfBlock ? packs - first - 1 : kPacksOfBlock - 1);
  Word words[kPacksEach];
  float scales[kPacksEach];
  for (unsigned each = 0; each < kPacksEach; ++each) {
    const unsigned mine = each * kDequantizeThreads + threadIdx.x, place = mine < last ? mine : last;
    const int64_t pack = first + place;
    words[each] = static_cast<const Word*>(matrix.codes)[kCount < Codes::kPerByte ? pack / Codes::kPerByte : pack];
    scales[each] = codes.scale(matrix, first * kCount, place * kCount);
  }
  if constexpr (Codes::kPerByte > 1) {
    // Of a byte with the same code twice.
    if (threadIdx.x < kFourBitNumbers)
      numbers[threadIdx.x] = matrix.pairs_256x2[int64_t{threadIdx.x} * 2 * (kFourBitNumbers + 1)];
    __syncthreads();
  }
  for (unsigned each = 0; each < kPacksEach; ++each) {
    const unsigned place = each * kDequantizeThreads + threadIdx.x;
    if (place > last) continue;
    const int skipped = kCount < Codes::kPerByte ? place % Codes::kPerByte : 0;
    Pack<T, kCount> values;
    for (int i = 0; i < kCount; ++i) {
      values.at[i] = rounded<T>(codes.number(codes.code(words[each], skipped + i), numbers) * scales[each]);
    }
    reinterpret_cast<Pack<T, kCount>*>(out)[first + place] = values;
  }
}

}  // namespace fathom::ops::cuda
