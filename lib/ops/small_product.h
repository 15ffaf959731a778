// Products of small FP32 matrices, rows end to end, by the BLAS that LibTorch brings along: within one thread of a
// parallel loop they are that thread's.
#pragma once

#include <cstdint>

namespace fathom::ops {

struct Operand {
  const float* data = nullptr;
  bool transposed = false;  // in memory
};

// out [rows, columns] = keep * out + a [rows, inner] * b [inner, columns]; keep 0: whatever out held.
void multiply_into(float* out, int64_t rows, int64_t columns, int64_t inner, Operand a, Operand b, float keep = 0);

}  // namespace fathom::ops
