// Pieces of a product: panels of x stay in the second cache while panels of y pass through the first.
#include "cpu/amx_product.h"

#include <algorithm>

#include "base/rounding.h"
#include "cpu/amx_lanes.h"
#include "cpu/amx_scratch.h"

namespace fathom::cpu::amx {
namespace {

// At most, of a piece: of x 384 KiB, of y 24 KiB at once.
constexpr int64_t kMostRows = 512, kMostColumns = 512, kMostDepth = 384;
// Threads whose cores are shared differ in speed: there shall be enough pieces to even that out. Factors in tiles cost
// nothing to begin anew.
constexpr int64_t kPiecesPerThread = 2, kPiecesInTilesPerThread = 6;
constexpr int64_t kLeastSide = 2 * kSide;

// The largest of equal parts of at most `most`, in whole tiles.
int64_t equal_part(int64_t size, int64_t most) { return round_up(divide_up(size, divide_up(size, most)), kSide); }

struct PieceScratch {
  PieceScratch(Scratch& scratch, int64_t m, int64_t n, int64_t k, bool in_tiles) {
    const int64_t rows = std::min(round_up(m, kSide), kMostRows);
    const int64_t columns = std::min(round_up(n, kSide), kMostColumns);
    const int64_t depth = in_tiles ? 0 : std::min(round_up(k, kSide), kMostDepth);
    x_MK = scratch.take<uint16_t>(rows * depth);
    y_KC = scratch.take<uint16_t>(depth * kSide);
    sums_NMC = scratch.take<float>(rows * (k > kMostDepth ? columns : kSide));
  }
  uint16_t *x_MK, *y_KC;  // unused in tiles
  float* sums_NMC;        // of one panel of y after the other; one is enough where k is multiplied at once
};

}  // namespace

Pieces::Pieces(int64_t m, int64_t n, int64_t k, int64_t threads, bool in_tiles)
    : rows(equal_part(m, kMostRows)), columns(equal_part(n, kMostColumns)), depth(equal_part(k, kMostDepth)) {
  const int64_t least = threads * (in_tiles ? kPiecesInTilesPerThread : kPiecesPerThread);
  const auto is_few = [&] { return divide_up(m, rows) * divide_up(n, columns) < least; };
  while (is_few() && columns > kLeastSide) columns = round_up(columns / 2, kSide);
  while (is_few() && rows > kLeastSide) rows = round_up(rows / 2, kSide);
  down = divide_up(m, rows);
  count = down * divide_up(n, columns);
}

int64_t product_scratch_bytes(int64_t m, int64_t n, int64_t k, bool in_tiles) {
  Scratch counted;
  const PieceScratch each(counted, m, n, k, in_tiles);
  return counted.bytes();
}

#ifdef FATHOM_AMX

namespace {

struct Range {
  int64_t begin, end;
};

// Columns [first, first + depth) of these rows, in the order in which they lie in memory.
void pack_x(const Factor& x, Range rows, int64_t first, int64_t depth, uint16_t* out) {
  const auto pack = [&](int64_t row, int64_t step) {
    uint16_t* upper = out + (row - rows.begin) * depth + step * kLanes;
    pack_rows(x, row, first + step, upper, upper + kLanes * depth);
  };
  if (x.transposed) {
    for (int64_t step = 0; step < depth; step += kSide) {
      for (int64_t row = rows.begin; row < rows.end; row += kSide) pack(row, step);
    }
    return;
  }
  for (int64_t row = rows.begin; row < rows.end; row += kSide) {
    for (int64_t step = 0; step < depth; step += kSide) pack(row, step);
  }
}

// 16 rows of sums with a panel of y, or their growth; of INT8 numbers the sums are integers.
template <bool kInt8>
FATHOM_AMX void multiply_panels(const uint16_t* x, const uint16_t* y, int64_t depth, bool adds, float* sums) {
  constexpr int64_t kTileBytes = 2 * kSide, kSumBytes = 4 * kSide;
  asm volatile("" ::: "memory");  // the intrinsics do not tell the compiler which memory they read and write
  if (adds) {
    _tile_loadd(0, sums, kSumBytes);
    _tile_loadd(1, sums + kLanes, kSumBytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
  }
  for (int64_t step = 0; step < depth; step += kSide) {
    _tile_loadd(2, x, kTileBytes);
    _tile_loadd(3, y, kTileBytes);
    if constexpr (kInt8) {
      _tile_dpbssd(0, 2, 3);
    } else {
      _tile_dpbf16ps(0, 2, 3);
    }
    _tile_loadd(3, y + kTileNumbers, kTileBytes);
    if constexpr (kInt8) {
      _tile_dpbssd(1, 2, 3);
    } else {
      _tile_dpbf16ps(1, 2, 3);
    }
    x += kTileNumbers;
    y += 2 * kTileNumbers;
  }
  _tile_stored(0, sums, kSumBytes);
  _tile_stored(1, sums + kLanes, kSumBytes);
  asm volatile("" ::: "memory");
}

// A panel of y of so much depth, packed at `out` unless it is in tiles.
const uint16_t* panel_of(const Factor& y, int64_t first, int64_t depth, int64_t column, uint16_t* out) {
  if (y.in_tiles) return y.data + column * y.rows + first * kSide;
  for (int64_t step = 0; step < depth; step += kSide) pack_columns(y, first + step, column, out + step * kSide);
  return out;
}

// Of y, rows [row, row + count) of kSide columns, on their way into the second cache.
void fetch_columns(const Factor& y, int64_t row, int64_t count, int64_t column) {
  if (y.transposed || column >= y.columns) return;  // panels of a transposed matrix lie side by side
  for (int64_t i = row; i < std::min(row + count, y.rows); ++i) {
    __builtin_prefetch(y.data + i * y.stride + column, 0, 2);
  }
}

// The sums of 16 rows and kSide columns from `row` and `column` on, into the result.
void finish(const Product& product, const float* sums, int64_t row, int64_t rows, int64_t column) {
  const auto write = product.adds ? add_panel : round_panel;
  write(sums, rows, product.y.columns - column, product.out + row * product.out_stride + column, product.out_stride);
}

void finish(const Int8Product& product, const float* sums, int64_t row, int64_t rows, int64_t column) {
  const int64_t place = row * product.out_stride + column, columns = product.y.columns - column;
  const PanelScales scales{product.x_scales_M + row, product.y_scales_N + column};
  const auto* integers = reinterpret_cast<const int32_t*>(sums);
  if (product.rounds) {
    scale_panel(integers, rows, columns, scales, static_cast<uint16_t*>(product.out) + place, product.out_stride);
  } else {
    scale_panel(integers, rows, columns, scales, static_cast<float*>(product.out) + place, product.out_stride);
  }
}

template <bool kInt8, typename AnyProduct>
void multiply_any(const AnyProduct& product, const Pieces& pieces, int64_t piece, void* memory) {
  const int64_t m = product.x.rows, k = product.x.columns, n = product.y.columns;
  Scratch block(memory);
  const PieceScratch scratch(block, m, n, k, are_in_tiles(product));
  const int64_t top = piece % pieces.down * pieces.rows, left = piece / pieces.down * pieces.columns;
  const int64_t bottom = std::min(top + pieces.rows, m), right = std::min(left + pieces.columns, n);
  for (int64_t first = 0; first < k; first += pieces.depth) {
    const int64_t depth = std::min(pieces.depth, round_up(k - first, kSide));
    const bool is_last = first + depth >= k, keeps = k > pieces.depth;
    if (!product.x.in_tiles) pack_x(product.x, {top, bottom}, first, depth, scratch.x_MK);
    const auto strip_of = [&](int64_t row) {
      return product.x.in_tiles ? product.x.data + row * k + first * kLanes : scratch.x_MK + (row - top) * depth;
    };
    const int64_t fetched = divide_up(depth, divide_up(bottom - top, kLanes));
    float* panel_sums = scratch.sums_NMC;
    for (int64_t column = left; column < right; column += kSide) {
      const uint16_t* panel = panel_of(product.y, first, depth, column, scratch.y_KC);
      for (int64_t row = top; row < bottom; row += kLanes) {
        fetch_columns(product.y, first + (row - top) / kLanes * fetched, fetched, column + kSide);
        float* sums = panel_sums + (row - top) * kSide;
        multiply_panels<kInt8>(strip_of(row), panel, depth, first > 0, sums);
        if (is_last) finish(product, sums, row, std::min(kLanes, bottom - row), column);
      }
      if (keeps) panel_sums += pieces.rows * kSide;
    }
  }
}

}  // namespace

void multiply_piece(const Product& product, const Pieces& pieces, int64_t piece, void* scratch) {
  multiply_any<false>(product, pieces, piece, scratch);
}

void multiply_piece(const Int8Product& product, const Pieces& pieces, int64_t piece, void* scratch) {
  multiply_any<true>(product, pieces, piece, scratch);
}

#endif

}  // namespace fathom::cpu::amx
