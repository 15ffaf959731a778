// Vectors of sixteen lanes, for lib/cpu/amx_*.cpp alone.
#pragma once

#include "cpu/amx_tiles.h"

#ifdef FATHOM_AMX

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

namespace fathom::cpu::amx {

inline constexpr int64_t kLanes = 16;  // FP32 numbers of a vector, and rows of a tile

// The first `count` lanes; all, or none.
FATHOM_AMX inline __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>((1u << std::clamp<int64_t>(count, 0, kLanes)) - 1);
}

// Sixteen BF16 numbers in FP32.
FATHOM_AMX inline __m512 widened(__m256i numbers) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(numbers), 16));
}

}  // namespace fathom::cpu::amx

#endif
