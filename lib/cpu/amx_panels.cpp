// Blocks of 32 by 32 numbers through registers: copied, interleaved, and transposed as 16 by 16 pairs.
#include "cpu/amx_panels.h"

#ifdef FATHOM_AMX

#include "cpu/amx_lanes.h"

namespace fathom::cpu::amx {
namespace {

using Tile = __m512i[kLanes];

// The first `count` of 32 numbers of 16 bits; all, or none.
FATHOM_AMX inline __mmask32 first_numbers(int64_t count) {
  return static_cast<__mmask32>((uint64_t{1} << std::clamp<int64_t>(count, 0, kSide)) - 1);
}

// Sixteen vectors of sixteen pairs, in place: by 1, 2, 4 and 8.
FATHOM_AMX inline void transpose_pairs(Tile& rows) {
  Tile half;
  for (int i = 0; i < kLanes; i += 2) {
    half[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    half[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < kLanes; i += 4) {
    for (int j = 0; j < 2; ++j) {
      rows[i + 2 * j] = _mm512_unpacklo_epi64(half[i + j], half[i + j + 2]);
      rows[i + 2 * j + 1] = _mm512_unpackhi_epi64(half[i + j], half[i + j + 2]);
    }
  }
  constexpr int kEven = 0x88, kOdd = 0xdd;  // of four lanes of 128 bits
  for (int i = 0; i < kLanes; i += 8) {
    for (int j = 0; j < 4; ++j) {
      half[i + j] = _mm512_shuffle_i32x4(rows[i + j], rows[i + j + 4], kEven);
      half[i + j + 4] = _mm512_shuffle_i32x4(rows[i + j], rows[i + j + 4], kOdd);
    }
  }
  for (int j = 0; j < 8; ++j) {
    rows[j] = _mm512_shuffle_i32x4(half[j], half[j + 8], kEven);
    rows[j + 8] = _mm512_shuffle_i32x4(half[j], half[j + 8], kOdd);
  }
}

// Of a block whose first number is x and of which [rows, width] belong to the matrix.
struct Block {
  const uint16_t* x;
  int64_t stride, rows, width;
};

FATHOM_AMX inline __m512i load_row(const Block& block, int64_t row) {
  return _mm512_maskz_loadu_epi16(row < block.rows ? first_numbers(block.width) : 0, block.x + row * block.stride);
}

// Two tiles whose rows are pairs of the block's; of its columns each takes those that panel_column names.
FATHOM_AMX inline void load_pairs(const Block& block, Tile (&tiles)[2]) {
  for (int64_t i = 0; i < kLanes; ++i) {
    const __m512i even = load_row(block, 2 * i), odd = load_row(block, 2 * i + 1);
    tiles[0][i] = _mm512_unpacklo_epi16(even, odd);
    tiles[1][i] = _mm512_unpackhi_epi16(even, odd);
  }
}

// The block in which row `row` and column `column` of the matrix lie first.
Block block_at(const Factor& x, int64_t row, int64_t column) {
  if (x.transposed) return {x.data + column * x.stride + row, x.stride, x.columns - column, x.rows - row};
  return {x.data + row * x.stride + column, x.stride, x.rows - row, x.columns - column};
}

}  // namespace

FATHOM_AMX void pack_rows(const Factor& x, int64_t row, int64_t column, uint16_t* upper, uint16_t* lower) {
  const Block block = block_at(x, row, column);
  if (!x.transposed) {
    for (int i = 0; i < kLanes; ++i) {
      _mm512_store_si512(upper + i * kSide, load_row(block, i));
      _mm512_store_si512(lower + i * kSide, load_row(block, kLanes + i));
    }
    return;
  }
  Tile tiles[2];
  load_pairs(block, tiles);
  for (int tile = 0; tile < 2; ++tile) {
    transpose_pairs(tiles[tile]);
    for (int i = 0; i < kLanes; ++i) {
      const int64_t to = panel_column(tile, i);
      _mm512_store_si512((to < kLanes ? upper : lower) + to % kLanes * kSide, tiles[tile][i]);
    }
  }
}

FATHOM_AMX void pack_columns(const Factor& y, int64_t row, int64_t column, uint16_t* tiles) {
  const Block block = block_at(y, row, column);
  Tile packed[2];
  if (!y.transposed) load_pairs(block, packed);
  for (int tile = 0; tile < 2; ++tile, tiles += kTileNumbers) {
    if (y.transposed) {
      for (int i = 0; i < kLanes; ++i) packed[tile][i] = load_row(block, panel_column(tile, i));
      transpose_pairs(packed[tile]);
    }
    for (int i = 0; i < kLanes; ++i) _mm512_store_si512(tiles + i * kSide, packed[tile][i]);
  }
}

namespace {

// BF16 numbers of tile 0 and tile 1 in a row, as columns: the inverse of panel_column.
FATHOM_AMX inline __m512i rounded_in_order(__m512 tile_0, __m512 tile_1) {
  const __m512i in_order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
  return _mm512_permutexvar_epi64(in_order, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(tile_1, tile_0)));
}

// The same of numbers of 32 bits, the lower sixteen or the upper.
FATHOM_AMX inline __m512 in_order(__m512 tile_0, __m512 tile_1, bool upper) {
  const __m512i lower = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  return _mm512_permutex2var_ps(tile_0, upper ? _mm512_add_epi32(lower, _mm512_set1_epi32(8)) : lower, tile_1);
}

// Scales of columns in the order of a tile.
FATHOM_AMX inline __m512 in_order_of_tile(const float* scales, int64_t columns, int tile) {
  const __m512i lower = _mm512_setr_epi32(0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
  return _mm512_permutex2var_ps(_mm512_maskz_loadu_ps(first_lanes(columns), scales),
                                _mm512_add_epi32(lower, _mm512_set1_epi32(4 * tile)),
                                _mm512_maskz_loadu_ps(first_lanes(columns - kLanes), scales + kLanes));
}

// Calls store(row, tile_0, tile_1) with the values of each row.
template <typename Store>
FATHOM_AMX inline void scale_rows(const int32_t* sums, int64_t rows, int64_t columns, const PanelScales& scales,
                                  const Store& store) {
  const __m512 scales_0 = in_order_of_tile(scales.columns, columns, 0);
  const __m512 scales_1 = in_order_of_tile(scales.columns, columns, 1);
  for (int64_t row = 0; row < rows; ++row, sums += kSide) {
    const __m512 of_row = _mm512_set1_ps(scales.rows[row]);
    const __m512 tile_0 = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(sums)), of_row);
    const __m512 tile_1 = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(sums + kLanes)), of_row);
    store(row, _mm512_mul_ps(tile_0, scales_0), _mm512_mul_ps(tile_1, scales_1));
  }
}

}  // namespace

FATHOM_AMX void round_panel(const float* sums, int64_t rows, int64_t columns, uint16_t* out, int64_t out_stride) {
  const __mmask32 numbers = first_numbers(columns);
  for (int64_t row = 0; row < rows; ++row, sums += kSide) {
    const __m512i ordered = rounded_in_order(_mm512_loadu_ps(sums), _mm512_loadu_ps(sums + kLanes));
    _mm512_mask_storeu_epi16(out + row * out_stride, numbers, ordered);
  }
}

FATHOM_AMX void add_panel(const float* sums, int64_t rows, int64_t columns, uint16_t* out, int64_t out_stride) {
  const __mmask32 numbers = first_numbers(columns);
  for (int64_t row = 0; row < rows; ++row, sums += kSide) {
    uint16_t* place = out + row * out_stride;
    const __m512 tile_0 = _mm512_loadu_ps(sums), tile_1 = _mm512_loadu_ps(sums + kLanes);
    const __m512i there = _mm512_maskz_loadu_epi16(numbers, place);
    const __m512 lower = in_order(tile_0, tile_1, false) + widened(_mm512_castsi512_si256(there));
    const __m512 upper = in_order(tile_0, tile_1, true) + widened(_mm512_extracti64x4_epi64(there, 1));
    _mm512_mask_storeu_epi16(place, numbers, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(upper, lower)));
  }
}

FATHOM_AMX void scale_panel(const int32_t* sums, int64_t rows, int64_t columns, const PanelScales& scales,
                            uint16_t* out, int64_t out_stride) {
  const __mmask32 numbers = first_numbers(columns);
  scale_rows(sums, rows, columns, scales, [&](int64_t row, __m512 tile_0, __m512 tile_1) FATHOM_AMX {
    _mm512_mask_storeu_epi16(out + row * out_stride, numbers, rounded_in_order(tile_0, tile_1));
  });
}

FATHOM_AMX void scale_panel(const int32_t* sums, int64_t rows, int64_t columns, const PanelScales& scales, float* out,
                            int64_t out_stride) {
  const __mmask16 lower = first_lanes(columns), upper = first_lanes(columns - kLanes);
  scale_rows(sums, rows, columns, scales, [&](int64_t row, __m512 tile_0, __m512 tile_1) FATHOM_AMX {
    float* to = out + row * out_stride;
    _mm512_mask_storeu_ps(to, lower, in_order(tile_0, tile_1, false));
    _mm512_mask_storeu_ps(to + kLanes, upper, in_order(tile_0, tile_1, true));
  });
}

}  // namespace fathom::cpu::amx

#endif
