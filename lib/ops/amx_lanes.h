// Masks of vectors of sixteen lanes, for lib/ops/amx_*.cpp alone. No torch header.
#pragma once

#include "ops/amx_tiles.h"

#ifdef FATHOM_AMX

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

namespace fathom::ops::amx {

inline constexpr int64_t kLanes = 16;  // FP32 numbers of a vector, and rows of a tile

// The first `count` lanes; all, or none.
FATHOM_AMX inline __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>((1u << std::clamp<int64_t>(count, 0, kLanes)) - 1);
}

}  // namespace fathom::ops::amx

#endif
