// Large products of BF16 or INT8 matrices in AMX's tiles, in pieces for threads.
//
// Two tiles of sums and one of each factor, not the four and two each that load the least: where two hardware threads
// share a core, a product that names all eight tiles waits for its own loads, as if there were no more of them to
// rename. Measured on such a core, the eight give a fourth of what the tiles can do and the four half; alone on the
// core both give all (benchmarks/cpu-intel-xeon-profile.md).
#pragma once

#include <cstdint>

#include "cpu/amx_panels.h"

namespace fathom::cpu::amx {

// out [m, n] = x [m, k] y [k, n]: summed in FP32 in the order of k, rounded once.
struct Product {
  Factor x, y;
  uint16_t* out;
  int64_t out_stride;
  bool adds = false;  // to what `out` holds
};

// out [m, n] = x [m, k] y [k, n] of INT8 numbers, of which a Factor passes two that lie side by side as one of 16 bits;
// k counts such pairs. The sums are exact, up to kMostInt8Columns numbers (ops/linear/int8_linear.h); each is
// multiplied in FP32 by the scale of its row, then by that of its column, and rounded.
struct Int8Product {
  Factor x, y;  // y transposed
  const float *x_scales_M, *y_scales_N;
  void* out;  // BF16 or FP32
  int64_t out_stride;
  bool rounds;  // to BF16
};

template <typename AnyProduct>
bool are_in_tiles(const AnyProduct& product) {
  return product.x.in_tiles && product.y.in_tiles;
}

// Which parts of the result are made alone; that changes who makes a number, not its bits. in_tiles: both factors are.
struct Pieces {
  Pieces(int64_t m, int64_t n, int64_t k, int64_t threads, bool in_tiles);
  int64_t rows, columns;  // of a piece: multiples of kSide
  int64_t depth;          // of x and y that is multiplied at once: a multiple of kSide
  int64_t down, count;    // pieces in a column of them, and all
};

// What one thread works in: grows with each side of the product.
int64_t product_scratch_bytes(int64_t m, int64_t n, int64_t k, bool in_tiles = false);

#ifdef FATHOM_AMX

// scratch: product_scratch_bytes, on a cache line. This thread holds a TileScope.
void multiply_piece(const Product& product, const Pieces& pieces, int64_t piece, void* scratch);
void multiply_piece(const Int8Product& product, const Pieces& pieces, int64_t piece, void* scratch);

#endif

}  // namespace fathom::cpu::amx
