// INT8 codes in the order of AMX's tiles, for products that then pack nothing. For CPUs with AMX, under Linux.
#pragma once

#include <cstdint>

#include "cpu/amx_panels.h"

namespace fathom::cpu::amx {

// A tile holds 64 codes of each of 16 rows; the rows of a right factor go by panels of kSide.
inline constexpr int64_t kTileCodes = 64, kTileRows = 16;
constexpr bool fills_strips(int64_t width) { return width % kTileCodes == 0; }
constexpr bool fills_panels(int64_t rows, int64_t width) { return fills_strips(width) && rows % kSide == 0; }

// Where codes [column, column + kTileCodes) of a row begin, in strips of kTileRows rows of this width.
constexpr int64_t place_in_strips(int64_t row, int64_t column, int64_t width) {
  return row / kTileRows * kTileRows * width + column * kTileRows + row % kTileRows * kTileCodes;
}

#ifdef FATHOM_AMX

// kSide rows that lie one after the other become a panel of the transposed matrix, in place. copy: as large.
void order_panel(int8_t* codes, int64_t width, int8_t* copy);

// As quant::quantize_int8, of BF16 numbers. codes: of the row's first tile; those of its next begin a tile further on.
float quantize_into_tiles(const uint16_t* values, int64_t width, int8_t* codes);

#endif

}  // namespace fathom::cpu::amx
