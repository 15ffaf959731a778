// Widens BF16 and FP16 to FP32 and rounds it back, to nearest even.
#include "cpu/row_blocks.h"

#include <bit>

namespace fathom::cpu {
namespace {

FATHOM_CLONES void widen_bf16(const uint16_t* in, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = std::bit_cast<float>(uint32_t{in[i]} << 16);
}

FATHOM_CLONES void narrow_to_bf16(const float* in, uint16_t* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(in[i]);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    out[i] = static_cast<uint16_t>(is_nan ? 0x7fc0u : rounded);
  }
}

// FP16's 10 bits of fraction lie 13 below FP32's 23, its exponents 112 below.
constexpr int kFractionShift = 13;
constexpr uint32_t kExponentShift = 112u << 23;
constexpr uint32_t kF32Infinity = 0x7f800000u, kF16Infinity = 0x7c00u, kF16NaN = 0x7e00u;
constexpr float kSmallestNormalF16 = 0x1p-14f;

FATHOM_CLONES void widen_f16(const uint16_t* in, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t sign = (in[i] & 0x8000u) << 16, magnitude = in[i] & 0x7fffu;
    const uint32_t moved = (magnitude << kFractionShift) + kExponentShift;
    const uint32_t finite_or_not = magnitude < kF16Infinity ? moved : moved + kExponentShift;
    // A subnormal's fraction as that of 2^-14, which is then taken off.
    const float subnormal = std::bit_cast<float>(moved + (1u << 23)) - kSmallestNormalF16;
    out[i] = std::bit_cast<float>(sign | (magnitude < 0x400u ? std::bit_cast<uint32_t>(subnormal) : finite_or_not));
  }
}

FATHOM_CLONES void narrow_to_f16(const float* in, uint16_t* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(in[i]), magnitude = bits & 0x7fffffffu;
    const uint32_t odd = (magnitude >> kFractionShift) & 1u;
    const uint32_t normal = (magnitude - kExponentShift + 0xfffu + odd) >> kFractionShift;
    // The sum has units of 2^-24, those of FP16's subnormals: its last bits are the number, rounded.
    const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) & 0x7ffu;
    const uint32_t too_large = magnitude > kF32Infinity ? kF16NaN : kF16Infinity;
    const uint32_t finite = magnitude < std::bit_cast<uint32_t>(kSmallestNormalF16) ? subnormal : normal;
    const uint32_t rounded = magnitude < std::bit_cast<uint32_t>(0x1p16f) ? finite : too_large;
    out[i] = static_cast<uint16_t>((bits >> 16 & 0x8000u) | rounded);
  }
}

}  // namespace

const float* read(Rows rows, int64_t first, int64_t n, float* buffer) {
  if (rows.type == RowType::kF32) return reinterpret_cast<const float*>(at(rows, first));
  const auto* from = reinterpret_cast<const uint16_t*>(at(rows, first));
  rows.type == RowType::kF16 ? widen_f16(from, buffer, n) : widen_bf16(from, buffer, n);
  return buffer;
}

float* target(Rows rows, int64_t first, float* buffer) {
  return rows.type == RowType::kF32 ? reinterpret_cast<float*>(at(rows, first)) : buffer;
}

void write(const float* values, Rows rows, int64_t first, int64_t n) {
  if (rows.type == RowType::kF32) return;  // computed where they lie
  auto* to = reinterpret_cast<uint16_t*>(at(rows, first));
  rows.type == RowType::kF16 ? narrow_to_f16(values, to, n) : narrow_to_bf16(values, to, n);
}

FATHOM_CLONES float dot(const float* a, const float* b, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

FATHOM_CLONES void accumulate(const float* x, float* sum, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] += x[i];
}

FATHOM_CLONES void multiply(const float* x, float factor, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * factor;
}

}  // namespace fathom::cpu
