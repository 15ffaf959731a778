// The arithmetic of the optimizers' updates on the CPU: one pass over memory, clipping included.
//
// Rows are FP32 or BF16, each on its own; all is computed in FP32 and rounded once. Every gradient is multiplied by
// `factor` as it is read. Functions take elements [first, last) unless they say otherwise.
#pragma once

#include <cstdint>

#include "cpu/kernels.h"

namespace fathom::cpu {

struct AdamWStep {
  double factor = 1, beta1 = 0, beta2 = 0, epsilon = 0;
  double keep = 1;         // of the parameter: 1 - rate * weight_decay
  double rate = 0;         // divided by 1 - beta1^step
  double root_second = 1;  // sqrt(1 - beta2^step)
};
// All four of one type. m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g²;  p = keep p - rate m / (sqrt(v) /
// root_second + epsilon).
void adamw(const AdamWStep& step, Rows parameter, Rows gradient, Rows first_moment, Rows second_moment, int64_t first,
           int64_t last);

// p = keep p - rate g.
struct SgdStep {
  double factor = 1, keep = 1, rate = 0;
};
void sgd(const SgdStep& step, Rows parameter, Rows gradient, int64_t first, int64_t last);

// p = keep p - rate sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g.
struct LionStep {
  double factor = 1, beta1 = 0, beta2 = 0, keep = 1, rate = 0;
};
void lion(const LionStep& step, Rows parameter, Rows gradient, float* momentum, int64_t first, int64_t last);

// ---- Adafactor, for a matrix of `columns`.

// sums[c] = the sum over `rows` rows of g², for columns [first, last). The factor is the caller's.
void column_squares(Rows gradient, int64_t rows, int64_t columns, float* sums, int64_t first, int64_t last);
// The sum of (g column_factors)² over one row.
double scaled_row_squares(Rows gradient, const float* column_factors, int64_t row, int64_t columns);
// p = keep p - row_factors g column_factors, for rows [first, last). row_factors hold rate and factor too.
void factored_update(Rows parameter, Rows gradient, double keep, const float* row_factors, const float* column_factors,
                     int64_t columns, int64_t first, int64_t last);

// The same without factors: squares = decay squares + (1 - decay) (g² + epsilon); returns the sum of g² / squares.
double update_squares(Rows gradient, double factor, double decay, double epsilon, float* squares, int64_t first,
                      int64_t last);
// p = keep p - rate g / sqrt(squares).
void unfactored_update(Rows parameter, Rows gradient, double keep, double rate, const float* squares, int64_t first,
                       int64_t last);

}  // namespace fathom::cpu
