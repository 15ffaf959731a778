// Widens BF16 to FP32 and rounds it back, to nearest even.
#include "ops/row_blocks.h"

#include <bit>

namespace fathom::ops::kernels {
namespace {

FATHOM_CLONES void widen(const uint16_t* in, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = std::bit_cast<float>(uint32_t{in[i]} << 16);
}

FATHOM_CLONES void narrow(const float* in, uint16_t* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(in[i]);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    out[i] = static_cast<uint16_t>(is_nan ? 0x7fc0u : rounded);
  }
}

}  // namespace

const float* read(Rows rows, int64_t first, int64_t n, float* buffer) {
  if (rows.type == RowType::kF32) return reinterpret_cast<const float*>(at(rows, first));
  widen(reinterpret_cast<const uint16_t*>(at(rows, first)), buffer, n);
  return buffer;
}

float* target(Rows rows, int64_t first, float* buffer) {
  return rows.type == RowType::kF32 ? reinterpret_cast<float*>(at(rows, first)) : buffer;
}

void write(const float* values, Rows rows, int64_t first, int64_t n) {
  if (rows.type == RowType::kBF16) narrow(values, reinterpret_cast<uint16_t*>(at(rows, first)), n);
}

}  // namespace fathom::ops::kernels
