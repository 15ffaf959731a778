// Two tiles of sums at a time, which share a tile of x; lib/cpu/amx_product.h says why not four.
#include "cpu/amx_tiles.h"

#ifdef FATHOM_AMX

#include <cstring>

#include "cpu/amx_lanes.h"

namespace fathom::cpu::amx {
namespace {

// As LDTILECFG reads it: all tiles are of full size.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1, start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfiguration kConfiguration;

// Of their own, because the compiler forgets the target of constructors.
FATHOM_AMX void configure_tiles() { _tile_loadconfig(&kConfiguration); }
FATHOM_AMX void release_tiles() { _tile_release(); }

// The intrinsics do not tell the compiler which memory they read and write.
inline void finish_memory() { asm volatile("" ::: "memory"); }

// 16 rows of pairs become columns: numbers 2i and 2i + 1 of each row.
FATHOM_AMX inline __m512i column_of_pairs(const uint16_t* x, int64_t stride) {
  const __m512i rows = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_i32gather_epi32(_mm512_mullo_epi32(rows, _mm512_set1_epi32(static_cast<int>(stride))), x, 2);
}

}  // namespace

TileScope::TileScope() { configure_tiles(); }
TileScope::~TileScope() { release_tiles(); }

FATHOM_AMX void multiply(Matrix x, Matrix y, Sums sums, int64_t m, int64_t n, int64_t k, bool adds) {
  const int64_t x_bytes = 2 * x.stride, y_bytes = 2 * y.stride, sum_bytes = 4 * sums.stride;
  finish_memory();
  for (int64_t row = 0; row < m; row += kLanes) {
    for (int64_t column = 0; column < n; column += kSide) {
      float* sum = sums.data + row * sums.stride + column;
      if (adds) {
        _tile_loadd(0, sum, sum_bytes);
        _tile_loadd(1, sum + kLanes, sum_bytes);
      } else {
        _tile_zero(0);
        _tile_zero(1);
      }
      const uint16_t* left = x.data + row * x.stride;
      const uint16_t* right = y.data + 2 * column;
      for (int64_t depth = 0; depth < k; depth += kSide) {
        _tile_loadd(2, left, x_bytes);
        _tile_loadd(3, right, y_bytes);
        _tile_dpbf16ps(0, 2, 3);
        _tile_loadd(3, right + 2 * kLanes, y_bytes);
        _tile_dpbf16ps(1, 2, 3);
        left += kSide;
        right += kSide / 2 * y.stride;
      }
      _tile_stored(0, sum, sum_bytes);
      _tile_stored(1, sum + kLanes, sum_bytes);
    }
  }
  finish_memory();
}

void copy_rows(Matrix rows, int64_t count, int64_t width, uint16_t* out, int64_t padded_count, int64_t padded_width) {
  for (int64_t row = 0; row < count; ++row) {
    uint16_t* copy = out + row * padded_width;
    std::memcpy(copy, rows.data + row * rows.stride, width * sizeof(uint16_t));
    std::memset(copy + width, 0, (padded_width - width) * sizeof(uint16_t));
  }
  std::memset(out + count * padded_width, 0, (padded_count - count) * padded_width * sizeof(uint16_t));
}

FATHOM_AMX void pair_rows(Matrix rows, int64_t count, int64_t width, uint16_t* out, int64_t padded_count,
                          int64_t padded_width) {
  for (int64_t row = 0; row < padded_count; row += 2) {
    const uint16_t* first = rows.data + row * rows.stride;
    for (int64_t i = 0; i < padded_width; i += kLanes) {
      const __mmask16 lanes = first_lanes(width - i);
      const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(row < count ? lanes : 0, first + i));
      const __m512i high =
          _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(row + 1 < count ? lanes : 0, first + rows.stride + i));
      _mm512_storeu_si512(out + row * padded_width + 2 * i, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
  }
}

FATHOM_AMX void transpose(Matrix x, int64_t count, int64_t width, Transposed rows, Transposed paired) {
  for (int64_t first = 0; first < count; first += kLanes) {
    for (int64_t pair = 0; pair < width / 2; ++pair) {
      const __m512i column = column_of_pairs(x.data + first * x.stride + 2 * pair, x.stride);
      if (paired.data != nullptr) _mm512_storeu_si512(paired.data + pair * paired.stride + 2 * first, column);
      if (rows.data == nullptr) continue;
      auto* even = reinterpret_cast<__m256i*>(rows.data + 2 * pair * rows.stride + first);
      auto* odd = reinterpret_cast<__m256i*>(rows.data + (2 * pair + 1) * rows.stride + first);
      _mm256_storeu_si256(even, _mm512_cvtepi32_epi16(column));
      _mm256_storeu_si256(odd, _mm512_cvtepi32_epi16(_mm512_srli_epi32(column, 16)));
    }
  }
}

}  // namespace fathom::cpu::amx

#endif
