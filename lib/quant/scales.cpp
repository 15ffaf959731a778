// Double quantization: dynamic codes of what is left of each scale without their mean.
#include "quant/scales.h"

#include <array>

namespace fathom::quant {

float mean_scale(const float* scales, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += scales[i];
  return n == 0 ? 0 : static_cast<float>(sum / static_cast<double>(n));
}

float quantize_scales(const float* scales, float offset, int64_t n, uint8_t* codes) {
  std::array<float, kScaleBlock> left{};
  for (int64_t i = 0; i < n; ++i) left[i] = scales[i] - offset;
  return quantize_dynamic(kSignedDynamic, left.data(), n, codes);
}

void dequantize_scales(const uint8_t* codes, float scale, float offset, int64_t n, float* scales) {
  for (int64_t i = 0; i < n; ++i) scales[i] = kSignedDynamic.values[codes[i]] * scale + offset;
}

}  // namespace fathom::quant
