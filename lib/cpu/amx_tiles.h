// Products of BF16 matrices in AMX's tiles, and the orders of memory that they read. For CPUs with AMX and AVX512_BF16,
// under Linux.
//
// BF16 numbers are passed as uint16_t. A matrix is taken by rows, or paired: rows 2i and 2i + 1 lie interleaved, in one
// row of twice the width, which is how a tile wants the second factor. Strides are in numbers of the memory's own rows:
// those of a paired matrix count both.
#pragma once

#include <cstdint>

// A function that may use AMX and AVX512; only for callers on a CPU that has them.
#if defined(__x86_64__) && defined(__gnu_linux__)
#define FATHOM_AMX __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,amx-tile,amx-bf16,amx-int8")))
#endif

namespace fathom::cpu::amx {

// Every side of a product is a multiple of this: two tiles, or the depth of one step.
inline constexpr int64_t kSide = 32;

#ifdef FATHOM_AMX

// While alive, this thread's tiles are set up for `multiply`. The process must be allowed to use them, which LibTorch
// asks of the kernel when it looks for AMX (at::native::cpublas::could_pack).
class TileScope {
 public:
  TileScope();
  ~TileScope();
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

struct Matrix {
  const uint16_t* data;
  int64_t stride;
};
struct Sums {
  float* data;
  int64_t stride;
};
// sums [m, n] = x [m, k] y [k, n], or grow by it. x by rows, y paired.
void multiply(Matrix x, Matrix y, Sums sums, int64_t m, int64_t n, int64_t k, bool adds);

// Rows [0, count) of `width` numbers, with zeros up to padded_count (even) rows of padded_width: by rows, and paired.
void copy_rows(Matrix rows, int64_t count, int64_t width, uint16_t* out, int64_t padded_count, int64_t padded_width);
void pair_rows(Matrix rows, int64_t count, int64_t width, uint16_t* out, int64_t padded_count, int64_t padded_width);
// The transpose of x [count, width], whose sides are multiples of kSide: by rows, and paired. Null: not wanted.
struct Transposed {
  uint16_t* data = nullptr;
  int64_t stride = 0;
};
void transpose(Matrix x, int64_t count, int64_t width, Transposed rows, Transposed paired);

#endif

}  // namespace fathom::cpu::amx
