// Codes of 4 bits, two in a byte.
#pragma once

#include <array>
#include <cstdint>

namespace fathom::quant {

// Which half of a byte has the first of its two codes.
enum class FirstHalf { kLow, kHigh };

// values[i] = table[code i] * scale, of n codes.
void look_up_half_bytes(const std::array<float, 16>& table, const uint8_t* codes, FirstHalf first, float scale,
                        int64_t n, float* values);

}  // namespace fathom::quant
