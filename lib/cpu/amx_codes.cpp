// Panels through a copy; rows of BF16 in two passes, the largest magnitude and the codes.
#include "cpu/amx_codes.h"

#ifdef FATHOM_AMX

#include <cstring>

#include "cpu/amx_lanes.h"
#include "quant/int8.h"
#include "quant/magnitude.h"

namespace fathom::cpu::amx {
namespace {

// As quant::largest_magnitude: magnitudes have the order of their bits.
FATHOM_AMX float largest_magnitude(const uint16_t* values, int64_t width) {
  const __m512i magnitude = _mm512_set1_epi16(0x7fff);
  __m512i largest = _mm512_setzero_si512();
  for (int64_t i = 0; i < width; i += kSide) {
    largest = _mm512_max_epu16(largest, _mm512_and_si512(_mm512_loadu_si512(values + i), magnitude));
  }
  const __m512i odd = _mm512_srli_epi32(largest, 16), even = _mm512_and_si512(largest, _mm512_set1_epi32(0xffff));
  const uint32_t bits = _mm512_reduce_max_epu32(_mm512_max_epu32(odd, even)) << 16;
  return quant::magnitude_of_bits(bits);
}

FATHOM_AMX inline __m512 widened(const uint16_t* values) {
  const __m256i narrow = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16));
}

FATHOM_AMX void round_values(const uint16_t* values, float codes_per_unit, int64_t width, int8_t* codes) {
  const __m512 factor = _mm512_set1_ps(codes_per_unit);
  for (int64_t column = 0; column < width; column += kTileCodes, codes += 2 * kTileNumbers) {
    for (int64_t i = 0; i < kTileCodes; i += kLanes) {
      const __m512i rounded = _mm512_cvtps_epi32(_mm512_mul_ps(widened(values + column + i), factor));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i), _mm512_cvtepi32_epi8(rounded));
    }
  }
}

void clear(int64_t width, int8_t* codes) {
  for (int64_t column = 0; column < width; column += kTileCodes, codes += 2 * kTileNumbers) {
    std::memset(codes, 0, kTileCodes);
  }
}

}  // namespace

void order_panel(int8_t* codes, int64_t width, int8_t* copy) {
  std::memcpy(copy, codes, static_cast<size_t>(kSide * width));
  const int64_t pairs = width / 2;
  const Factor rows{reinterpret_cast<const uint16_t*>(copy), pairs, kSide, pairs, /*transposed=*/true};
  auto* tiles = reinterpret_cast<uint16_t*>(codes);
  for (int64_t step = 0; step < pairs; step += kSide) pack_columns(rows, step, 0, tiles + step * kSide);
}

float quantize_into_tiles(const uint16_t* values, int64_t width, int8_t* codes) {
  const float largest = largest_magnitude(values, width);
  if (!(largest > 0)) {
    clear(width, codes);
    return largest;
  }
  round_values(values, quant::kLargestInt8Code / largest, width, codes);
  return largest / quant::kLargestInt8Code;
}

}  // namespace fathom::cpu::amx

#endif
