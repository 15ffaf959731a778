// Fake quantization of numbers in memory: rounded to codes and read back at once.
#pragma once

#include <cstdint>

#include "cpu/kernels.h"

namespace fathom::cpu {

// `group` numbers in a row share a step: e^log_step.
struct StepGrid {
  int64_t group = 0;
  float lowest = 0, highest = 0;  // codes
};

// Groups [first, last): out = clamp(round(value / step)) * step in FP32, to nearest even, rounded once to the type of
// out, which may be values.
void fake_quantize(Rows values, const float* log_steps, const StepGrid& grid, Rows out, int64_t first, int64_t last);
// Their codes, a byte each.
void fake_quantization_codes(Rows values, const float* log_steps, const StepGrid& grid, int8_t* codes, int64_t first,
                             int64_t last);
// The gradient of the numbers read back becomes that of the values in place, 0 where the codes end before them; and
// that of each log_step.
void fake_quantize_backward(Rows gradient, Rows values, const float* log_steps, const StepGrid& grid,
                            float* log_step_gradients, int64_t first, int64_t last);

// Rows [first, last) in INT8, each with a step of its own: its largest magnitude / 127.
void fake_quantize_tokens(Rows values, Rows out, int64_t first, int64_t last, int64_t width);

}  // namespace fathom::cpu
