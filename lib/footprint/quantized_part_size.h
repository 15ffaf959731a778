// How much of a matrix is in FP32 at once while it is quantized, or dequantized by tables.
#pragma once

#include <algorithm>
#include <cstdint>

#include "quant/nf4.h"

namespace fathom::footprint {

// Values that are looked up at a time: their FP32 takes 16 MiB. Whole blocks of NF4, and of its scales' blocks.
inline constexpr int64_t kDequantizedPart = int64_t{1} << 22;

// Rows that are quantized at a time, whole blocks of NF4 and whole bytes: on a CPU about a million values, which stay
// in its caches; on a GPU as many as are dequantized at a time, since each part costs a launch of every kernel.
inline int64_t quantized_part_rows(int64_t rows, int64_t columns, bool on_gpu) {
  const int64_t values = on_gpu ? kDequantizedPart : int64_t{1} << 20;
  return std::min(rows, std::max(quant::kNf4Block, values / columns / quant::kNf4Block * quant::kNf4Block));
}

}  // namespace fathom::footprint
