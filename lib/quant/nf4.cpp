// NF4: codes by counting thresholds, values by looking them up.
#include "quant/nf4.h"

#include <algorithm>

#include "base/clones.h"
#include "quant/half_bytes.h"
#include "quant/magnitude.h"

namespace fathom::quant {
namespace {

constexpr std::array<float, 16> kValues = {-1.0f,
                                           -0.6961928009986877f,
                                           -0.5250730514526367f,
                                           -0.39491748809814453f,
                                           -0.28444138169288635f,
                                           -0.18477343022823334f,
                                           -0.09105003625154495f,
                                           0.0f,
                                           0.07958029955625534f,
                                           0.16093020141124725f,
                                           0.24611230194568634f,
                                           0.33791524171829224f,
                                           0.44070982933044434f,
                                           0.5626170039176941f,
                                           0.7229568362236023f,
                                           1.0f};
constexpr uint8_t kZeroTwice = 0x77;  // two codes of the value 0

constexpr std::array<float, 15> midpoints() {
  std::array<float, 15> between{};
  for (size_t i = 0; i < between.size(); ++i) between[i] = (kValues[i] + kValues[i + 1]) / 2;
  return between;
}
constexpr std::array<float, 15> kMidpoints = midpoints();

FATHOM_CLONES void count_thresholds(const float* values, float reciprocal, int64_t n, uint8_t* codes) {
  for (int64_t i = 0; i < n; ++i) {
    const float fraction = values[i] * reciprocal;
    int32_t code = 0;
    for (const float threshold : kMidpoints) code += fraction > threshold ? 1 : 0;
    codes[i] = static_cast<uint8_t>(code);
  }
}

}  // namespace

const std::array<float, 16> kNf4Values = kValues;
const std::array<float, 15> kNf4Thresholds = kMidpoints;

float quantize_nf4(const float* values, int64_t n, uint8_t* codes) {
  const float largest = largest_magnitude(values, n);
  if (!(largest > 0)) {
    std::fill_n(codes, (n + 1) / 2, kZeroTwice);
    return largest;
  }
  std::array<uint8_t, kNf4Block> unpacked;
  if (n % 2 != 0) unpacked[n] = kZeroTwice & 15;
  count_thresholds(values, 1 / largest, n, unpacked.data());
  for (int64_t i = 0; i < n; i += 2) codes[i / 2] = static_cast<uint8_t>(unpacked[i] << 4 | unpacked[i + 1]);
  return largest;
}

void dequantize_nf4(const uint8_t* codes, float scale, int64_t n, float* values) {
  look_up_half_bytes(kValues, codes, FirstHalf::kHigh, scale, n, values);
}

}  // namespace fathom::quant
