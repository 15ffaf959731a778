// A block at a time: its largest magnitude, the scale, and one multiplication for each value.
#include "quant/ggml_blocks.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/clones.h"
#include "quant/float_format.h"

namespace fathom::quant {
namespace {

constexpr uint16_t kFirstNotFinite = 0x7C00;  // of FP16, without the sign

// False: it is not finite there.
bool put_scale(float scale, std::byte* block) {
  const auto bits = static_cast<uint16_t>(encode(kFp16, scale));
  std::memcpy(block, &bits, sizeof bits);
  return (bits & 0x7FFF) < kFirstNotFinite;
}

float scale_of(const std::byte* block) {
  uint16_t bits = 0;
  std::memcpy(&bits, block, sizeof bits);
  return static_cast<float>(decode(kFp16, bits));
}

// The value that std::abs makes the largest, the first of several; NaN or infinity where there is one.
FATHOM_CLONES float extreme_of(const float* values) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < kGgmlBlock; ++i) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(values[i]) & 0x7FFFFFFF;
    largest = magnitude > largest ? magnitude : largest;
  }
  for (int64_t i = 0; i < kGgmlBlock; ++i) {
    if ((std::bit_cast<uint32_t>(values[i]) & 0x7FFFFFFF) == largest) return values[i];
  }
  return 0;
}

// 0 for a scale so small that its inverse is infinite: such a scale is 0 in FP16.
float inverse_of(float scale) {
  const float inverse = 1 / scale;
  return std::isfinite(inverse) ? inverse : 0;
}

FATHOM_CLONES void put_bytes(const float* values, float codes_per_unit, std::byte* codes) {
  for (int64_t i = 0; i < kGgmlBlock; ++i) {
    codes[i] = static_cast<std::byte>(static_cast<int8_t>(std::round(values[i] * codes_per_unit)));
  }
}

FATHOM_CLONES void put_halves(const float* values, float codes_per_unit, std::byte* codes) {
  constexpr int64_t kHalf = kGgmlBlock / 2;
  const auto code = [&](int64_t i) {
    const int shifted = static_cast<int>(values[i] * codes_per_unit + 8.5f);
    return shifted < 15 ? shifted : 15;
  };
  for (int64_t i = 0; i < kHalf; ++i) codes[i] = static_cast<std::byte>(code(i) | code(i + kHalf) << 4);
}

}  // namespace

bool quantize_q8_0(const float* values, int64_t n, std::byte* blocks) {
  bool finite = true;
  for (; n > 0; n -= kGgmlBlock, values += kGgmlBlock, blocks += kQ8_0Bytes) {
    const float scale = std::abs(extreme_of(values)) / 127;
    finite = put_scale(scale, blocks) && finite;
    if (finite) put_bytes(values, inverse_of(scale), blocks + 2);
  }
  return finite;
}

bool quantize_q4_0(const float* values, int64_t n, std::byte* blocks) {
  bool finite = true;
  for (; n > 0; n -= kGgmlBlock, values += kGgmlBlock, blocks += kQ4_0Bytes) {
    const float scale = extreme_of(values) / -8;
    finite = put_scale(scale, blocks) && finite;
    if (finite) put_halves(values, inverse_of(scale), blocks + 2);
  }
  return finite;
}

void dequantize_q8_0(const std::byte* blocks, int64_t n, float* values) {
  for (; n > 0; n -= kGgmlBlock, values += kGgmlBlock, blocks += kQ8_0Bytes) {
    const float scale = scale_of(blocks);
    for (int64_t i = 0; i < kGgmlBlock; ++i) values[i] = static_cast<float>(static_cast<int8_t>(blocks[2 + i])) * scale;
  }
}

void dequantize_q4_0(const std::byte* blocks, int64_t n, float* values) {
  constexpr int64_t kHalf = kGgmlBlock / 2;
  for (; n > 0; n -= kGgmlBlock, values += kGgmlBlock, blocks += kQ4_0Bytes) {
    const float scale = scale_of(blocks);
    for (int64_t i = 0; i < kHalf; ++i) {
      const auto codes = static_cast<int>(blocks[2 + i]);
      values[i] = static_cast<float>((codes & 15) - 8) * scale;
      values[i + kHalf] = static_cast<float>((codes >> 4) - 8) * scale;
    }
  }
}

}  // namespace fathom::quant
