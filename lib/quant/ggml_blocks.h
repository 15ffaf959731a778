// ggml's blocks of 32 values with one scale in FP16, which GGUF files are made of: Q8_0 and Q4_0.
//
// Q8_0: value = code × scale, codes from -127 to 127 as bytes, scale = the largest magnitude / 127.
// Q4_0: value = (code - 8) × scale, codes from 0 to 15, value i in the low and value i + 16 in the high half of byte i.
// The scale is the value of the largest magnitude / -8, its sign with it, so that this value becomes code 0.
// Codes are made with the scale before it is rounded to FP16, as ggml's quantize_row_q8_0_ref and quantize_row_q4_0_ref
// make them; the bytes are the same.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fathom::quant {

inline constexpr int64_t kGgmlBlock = 32;
inline constexpr int64_t kQ8_0Bytes = 34;  // of a block: the scale, then the codes
inline constexpr int64_t kQ4_0Bytes = 18;

// n: a multiple of 32. False: a scale is beyond FP16, so that what is read back would not be finite, or a value is not
// finite.
bool quantize_q8_0(const float* values, int64_t n, std::byte* blocks);
bool quantize_q4_0(const float* values, int64_t n, std::byte* blocks);
// The values again, in FP32.
void dequantize_q8_0(const std::byte* blocks, int64_t n, float* values);
void dequantize_q4_0(const std::byte* blocks, int64_t n, float* values);

}  // namespace fathom::quant
