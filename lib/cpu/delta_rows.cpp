// Loops over whole rows, several of which are read at a time.
#include "cpu/delta_rows.h"

#include <cmath>

#include "cpu/exponential.h"
#include "cpu/row_blocks.h"

namespace fathom::cpu {
namespace {

FATHOM_CLONES void scaled(const float* x, float factor, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = factor * x[i];
}

FATHOM_CLONES void add_scaled(const float* x, float factor, float* sum, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] += factor * x[i];
}

FATHOM_CLONES void decays_from(const float* totals, float total, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = exponential(total - totals[i]);
}

// x less the sum of `count` rows, each with its factor; `apart`: from one factor to the next.
FATHOM_CLONES void subtract_rows(const float* factors, int64_t apart, const float* rows, int64_t count, int64_t width,
                                 float* x) {
  int64_t row = 0;
  for (; row + 4 <= count; row += 4) {
    const float a = factors[row * apart], b = factors[(row + 1) * apart], c = factors[(row + 2) * apart],
                d = factors[(row + 3) * apart];
    const float *first = rows + row * width, *second = first + width, *third = second + width, *fourth = third + width;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      x[i] -= a * first[i] + b * second[i] + c * third[i] + d * fourth[i];
    }
  }
  for (; row < count; ++row) {
    const float factor = factors[row * apart];
    const float* its = rows + row * width;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) x[i] -= factor * its[i];
  }
}

}  // namespace

float unit_row(const float* x, int64_t n, float scale, float* out) {
  const float norm = 1.0F / std::sqrt(dot(x, x, n) + 1e-6F);
  scaled(x, norm * scale, out, n);
  return norm;
}

void unit_row_backward(const float* grad_out, const float* out, int64_t n, float scale, float norm, float* grad) {
  scaled(grad_out, norm * scale, grad, n);
  add_scaled(out, -norm / scale * dot(out, grad_out, n), grad, n);
}

void pair_decays(const float* totals, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    decays_from(totals, totals[i], out + i * n, i + 1);
    for (int64_t j = i + 1; j < n; ++j) out[i * n + j] = 0;
  }
}

void solve_lower(const float* lower, int64_t n, float* x, int64_t width) {
  for (int64_t i = 1; i < n; ++i) subtract_rows(lower + i * n, 1, x, i, width, x + i * width);
}

void solve_lower_transposed(const float* lower, int64_t n, float* x, int64_t width) {
  for (int64_t i = n - 2; i >= 0; --i) {
    subtract_rows(lower + (i + 1) * n + i, n, x + (i + 1) * width, n - 1 - i, width, x + i * width);
  }
}

FATHOM_CLONES void add_pair_sums(const float* a, const float* b, int64_t n, float* rows, float* columns) {
  for (int64_t i = 1; i < n; ++i) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < i; ++j) {
      const float product = a[i * n + j] * b[i * n + j];
      sum += product;
      columns[j] += product;
    }
    rows[i] += sum;
  }
}

void scale_rows(const float* factors, const float* x, float* out, int64_t n, int64_t width) {
  for (int64_t i = 0; i < n; ++i) scaled(x + i * width, factors[i], out + i * width, width);
}

void add_scaled_rows(const float* factors, const float* x, float* sum, int64_t n, int64_t width) {
  for (int64_t i = 0; i < n; ++i) add_scaled(x + i * width, factors[i], sum + i * width, width);
}

FATHOM_CLONES void multiply(const float* a, const float* b, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] * b[i];
}

}  // namespace fathom::cpu
