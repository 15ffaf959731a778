// NF4's scales quantized in their turn, "double quantization": 8 bits for each and one FP32 for 256.
//
// Source: Dettmers et al. 2023, arXiv 2305.14314, section 3; the 8-bit codes are the signed ones of quant/dynamic.h.
#pragma once

#include <cstdint>

#include "quant/dynamic.h"

namespace fathom::quant {

inline constexpr int64_t kScaleBlock = kDynamicBlock;

// What is taken off every scale first: the mean of all of them, summed in FP64.
float mean_scale(const float* scales, int64_t n);
// Quantizes one block of n <= 256 scales less `offset` and returns the block's own scale, the largest magnitude left.
float quantize_scales(const float* scales, float offset, int64_t n, uint8_t* codes);
// kSignedDynamic.values[code] × scale + offset.
void dequantize_scales(const uint8_t* codes, float scale, float offset, int64_t n, float* scales);

}  // namespace fathom::quant
