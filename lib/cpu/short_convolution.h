// Convolutions along the text, of rows of memory, for CPUs: between two gates, or before SiLU.
#pragma once

#include <cstdint>

#include "cpu/kernels.h"

namespace fathom::cpu {

// How texts lie in the rows, end to end.
struct Texts {
  const int32_t* positions = nullptr;  // of each row in its text; null: all texts have `length` rows
  int64_t length = 0;
  int64_t position(int64_t row) const { return positions != nullptr ? positions[row] : row % length; }
};

// What each channel's rows are multiplied with, [width, count], the last one by the row itself.
struct Taps {
  Rows rows;
  int64_t count = 0;
};

// Rows of parts are B, C and x, each of `width`: out[t] = C[t] * sum over j of taps[count - 1 - j] * B[t - j] * x[t -
// j], of rows of one text, in FP32; for rows [first, last).
void short_convolution(Rows parts, Taps taps, const Texts& texts, Rows out, int64_t first, int64_t last, int64_t width);
// Of columns [first, last) of all rows. grad_taps: FP32, [width, count], and null where it is not wanted.
void short_convolution_backward(Rows grad_out, Rows parts, Taps taps, const Texts& texts, Rows grad_parts,
                                float* grad_taps, int64_t rows, int64_t first, int64_t last, int64_t width);

// out[t] = silu(sum over j of taps[count - 1 - j] * in[t - j]), likewise.
void silu_convolution(Rows in, Taps taps, const Texts& texts, Rows out, int64_t first, int64_t last, int64_t width);
// Likewise of columns. grad_in may be grad_out.
void silu_convolution_backward(Rows grad_out, Rows in, Taps taps, const Texts& texts, Rows grad_in, float* grad_taps,
                               int64_t rows, int64_t first, int64_t last, int64_t width);

}  // namespace fathom::cpu
