// What the gated delta rule does to the rows of a chunk of a text beside products of matrices, for CPUs. All is FP32,
// and rows lie end to end.
#pragma once

#include <cstdint>

namespace fathom::cpu {

// out = x * scale / sqrt(sum of x^2 + 1e-6); returns 1 / sqrt(...). Backward: with y = out / scale and g the gradient
// of y, that of x is (g - y (y . g)) / sqrt(...).
float unit_row(const float* x, int64_t n, float scale, float* out);
void unit_row_backward(const float* grad_out, const float* out, int64_t n, float scale, float norm, float* grad);

// e^(totals[i] - totals[j]) for j <= i of [n, n], else 0.
void pair_decays(const float* totals, int64_t n, float* out);

// With A the part of lower [n, n] below its diagonal: x becomes (I + A)^-1 x, or (I + A)^-T x, of [n, width].
void solve_lower(const float* lower, int64_t n, float* x, int64_t width);
void solve_lower_transposed(const float* lower, int64_t n, float* x, int64_t width);

// With p = a * b below the diagonal of [n, n]: rows[i] and columns[j] get the sums of p's rows and columns added.
void add_pair_sums(const float* a, const float* b, int64_t n, float* rows, float* columns);

// Of each row i: out = factors[i] * x; sum += factors[i] * x.
void scale_rows(const float* factors, const float* x, float* out, int64_t n, int64_t width);
void add_scaled_rows(const float* factors, const float* x, float* sum, int64_t n, int64_t width);
// out = a * b.
void multiply(const float* a, const float* b, float* out, int64_t n);

}  // namespace fathom::cpu
