// How much of a matrix is in FP32 at once while it is quantized, or dequantized by tables. No torch header.
#pragma once

#include <algorithm>
#include <cstdint>

#include "quant/nf4.h"

namespace fathom::ops {

// Rows that are quantized at a time: about a million values, whole blocks of NF4 and whole bytes.
inline int64_t quantized_part_rows(int64_t rows, int64_t columns) {
  constexpr int64_t kValues = int64_t{1} << 20;
  return std::min(rows, std::max(quant::kNf4Block, kValues / columns / quant::kNf4Block * quant::kNf4Block));
}

// Values that are looked up at a time: their FP32 takes 16 MiB. Whole blocks of NF4, and of its scales' blocks.
inline constexpr int64_t kDequantizedPart = int64_t{1} << 22;

}  // namespace fathom::ops
