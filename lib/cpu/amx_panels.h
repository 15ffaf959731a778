// Strips of BF16 matrices as AMX's tiles read them, one whole tile after the other. For CPUs with AMX and AVX512_BF16,
// under Linux.
#pragma once

#include <cstdint>

#include "cpu/amx_tiles.h"

namespace fathom::cpu::amx {

inline constexpr int64_t kTileNumbers = 512;  // 16 rows of 32

// A matrix as it lies in memory. BF16 numbers are passed as uint16_t.
struct Factor {
  const uint16_t* data;
  int64_t rows, columns;
  int64_t stride;   // between rows, or where the matrix is transposed between columns
  bool transposed;  // the numbers of a column lie side by side
  // Whole tiles one after the other already: of the left factor in strips of 16 rows, as pack_rows leaves them, of the
  // right one in panels of kSide columns, as pack_columns does. Stride and order of memory say nothing then.
  bool in_tiles = false;
};

#ifdef FATHOM_AMX

// A block of kSide by kSide numbers from `row` and `column` on; what lies beyond the matrix is zero.
//
// Its upper and lower 16 rows, a tile each.
void pack_rows(const Factor& x, int64_t row, int64_t column, uint16_t* upper, uint16_t* lower);
// Its rows paired: two tiles one after the other, with the columns that panel_column names.
void pack_columns(const Factor& y, int64_t row, int64_t column, uint16_t* tiles);
// Of kSide columns the one that becomes column i of tile 0 or 1: the order in which vectors are unpacked.
constexpr int64_t panel_column(int64_t tile, int64_t i) { return i / 4 * 8 + tile * 4 + i % 4; }

// Rows of sums of a product with such columns, back in order and rounded: out [rows, columns], at most [.., kSide],
// from the sums of tile 0 and tile 1 side by side, kSide in a row.
void round_panel(const float* sums, int64_t rows, int64_t columns, uint16_t* out, int64_t out_stride);
// The same plus what `out` holds, added before it is rounded.
void add_panel(const float* sums, int64_t rows, int64_t columns, uint16_t* out, int64_t out_stride);

// The same of integers: each times its row's scale and its column's.
struct PanelScales {
  const float *rows, *columns;
};
void scale_panel(const int32_t* sums, int64_t rows, int64_t columns, const PanelScales& scales, uint16_t* out,
                 int64_t out_stride);
void scale_panel(const int32_t* sums, int64_t rows, int64_t columns, const PanelScales& scales, float* out,
                 int64_t out_stride);

#endif

}  // namespace fathom::cpu::amx
