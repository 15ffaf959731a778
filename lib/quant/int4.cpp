// INT4: a division, a rounding and a clamp for each value, then two codes to a byte.
#include "quant/int4.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/clones.h"
#include "quant/magnitude.h"

namespace fathom::quant {
namespace {

constexpr int64_t kBlock = 256;
constexpr float kSmallest = kSmallestInt4Code, kLargest = kLargestInt4Code;
constexpr uint8_t kZeroTwice = 0x88;  // two codes of the value 0

FATHOM_CLONES void round_values(const float* values, float scale, int64_t n, uint8_t* codes) {
  for (int64_t i = 0; i < n; ++i) {
    // In this order a NaN beside a given scale becomes the smallest code rather than anything.
    const float code = std::min(std::max(kSmallest, std::nearbyint(values[i] / scale)), kLargest);
    codes[i] = static_cast<uint8_t>(code - kSmallest);
  }
}
FATHOM_CLONES void scale_pairs(const uint8_t* codes, float scale, int64_t pairs, float* values) {
  for (int64_t i = 0; i < pairs; ++i) {
    values[2 * i] = static_cast<float>((codes[i] & 15) + kSmallestInt4Code) * scale;
    values[2 * i + 1] = static_cast<float>((codes[i] >> 4) + kSmallestInt4Code) * scale;
  }
}

}  // namespace

float quantize_int4(const float* values, int64_t n, uint8_t* codes) {
  const float largest = largest_magnitude(values, n);
  if (!(largest > 0)) {
    std::fill_n(codes, (n + 1) / 2, kZeroTwice);
    return largest;
  }
  const float scale = largest / kInt4CodesPerSide;
  quantize_int4_with(values, scale, n, codes);
  return scale;
}

void quantize_int4_with(const float* values, float scale, int64_t n, uint8_t* codes) {
  std::array<uint8_t, kBlock> unpacked{};
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t count = std::min(kBlock, n - first);
    if (count % 2 != 0) unpacked[count] = kZeroTwice & 15;
    round_values(values + first, scale, count, unpacked.data());
    for (int64_t i = 0; i < count; i += 2) {
      codes[(first + i) / 2] = static_cast<uint8_t>(unpacked[i] | unpacked[i + 1] << 4);
    }
  }
}

void dequantize_int4(const uint8_t* codes, float scale, int64_t n, float* values) {
  scale_pairs(codes, scale, n / 2, values);
  if (n % 2 != 0) values[n - 1] = static_cast<float>((codes[n / 2] & 15) + kSmallestInt4Code) * scale;
}

}  // namespace fathom::quant
