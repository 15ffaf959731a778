// How the CPU kernels read and write rows: in blocks of FP32 values, whatever the memory holds.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clones.h"
#include "cpu/kernels.h"

namespace fathom::cpu {

// Elementwise work goes through buffers of this many elements, so that 16 bits cost no pass over memory of their own.
inline constexpr int64_t kBlock = 1024;

inline int64_t size_of(RowType type) { return type == RowType::kF32 ? 4 : 2; }
inline std::byte* at(Rows rows, int64_t element) {
  return static_cast<std::byte*>(rows.data) + element * size_of(rows.type);
}

// FP32 values of elements [first, first + n): the memory itself, or `buffer` filled from 16 bits.
const float* read(Rows rows, int64_t first, int64_t n, float* buffer);
// Where to compute elements [first, first + n) of an output; `write` rounds them into place.
float* target(Rows rows, int64_t first, float* buffer);
void write(const float* values, Rows rows, int64_t first, int64_t n);

// Of n FP32 values: the sum of a * b, sum += x, and out = x * factor.
float dot(const float* a, const float* b, int64_t n);
void accumulate(const float* x, float* sum, int64_t n);
void multiply(const float* x, float factor, float* out, int64_t n);

}  // namespace fathom::cpu
