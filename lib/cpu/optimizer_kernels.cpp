// The updates' inner loops, which the compiler turns into vector code.
#include "cpu/optimizer_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "cpu/row_blocks.h"

namespace fathom::cpu {
namespace {

// What a block is computed with: numbers of the step in FP32.
struct AdamWNumbers {
  float factor, beta1, beta2, epsilon, keep, rate, root_second;
};

inline float load(float value) { return value; }
inline float load(uint16_t value) { return std::bit_cast<float>(uint32_t{value} << 16); }
inline void store(float value, float& to) { to = value; }
inline void store(float value, uint16_t& to) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  to = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

template <typename Stored>
[[gnu::always_inline]] inline void adamw_elements(const AdamWNumbers& s, const Stored* g, Stored* p, Stored* m,
                                                  Stored* v, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = load(g[i]) * s.factor, before = load(m[i]);
    const float mean = before + (1 - s.beta1) * (gradient - before);
    const float square = s.beta2 * load(v[i]) + (1 - s.beta2) * gradient * gradient;
    store(s.keep * load(p[i]) - s.rate * mean / (std::sqrt(square) / s.root_second + s.epsilon), p[i]);
    store(mean, m[i]);
    store(square, v[i]);
  }
}
FATHOM_CLONES void adamw_wide(const AdamWNumbers& s, const float* g, float* p, float* m, float* v, int64_t n) {
  adamw_elements(s, g, p, m, v, n);
}
FATHOM_CLONES void adamw_narrow(const AdamWNumbers& s, const uint16_t* g, uint16_t* p, uint16_t* m, uint16_t* v,
                                int64_t n) {
  adamw_elements(s, g, p, m, v, n);
}
template <typename Stored>
Stored* elements(Rows rows, int64_t first) {
  return reinterpret_cast<Stored*>(at(rows, first));
}

// p_out = keep p - rate x.
FATHOM_CLONES void subtract_block(float keep, float rate, const float* x, const float* p, float* p_out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) p_out[i] = keep * p[i] - rate * x[i];
}

FATHOM_CLONES void lion_block(float factor, float beta1, float beta2, float keep, float rate, const float* g,
                              const float* p, float* m, float* p_out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = g[i] * factor;
    const float mixed = beta1 * m[i] + (1 - beta1) * gradient;
    const float sign = mixed > 0 ? 1.0f : mixed < 0 ? -1.0f : mixed;  // 0 and NaN as they are
    p_out[i] = keep * p[i] - rate * sign;
    m[i] = beta2 * m[i] + (1 - beta2) * gradient;
  }
}

FATHOM_CLONES void add_squares(const float* x, float* sums, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sums[i] += x[i] * x[i];
}

FATHOM_CLONES float sum_of_scaled_squares(const float* x, const float* factors, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += (x[i] * factors[i]) * (x[i] * factors[i]);
  return sum;
}

FATHOM_CLONES void subtract_scaled_block(float keep, float rate, const float* x, const float* factors, const float* p,
                                         float* p_out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) p_out[i] = keep * p[i] - rate * factors[i] * x[i];
}

FATHOM_CLONES float squares_block(float factor, float decay, float epsilon, const float* g, float* squares, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const float square = g[i] * g[i] * factor * factor;
    squares[i] = decay * squares[i] + (1 - decay) * (square + epsilon);
    sum += square / squares[i];
  }
  return sum;
}

FATHOM_CLONES void subtract_by_root_block(float keep, float rate, const float* x, const float* squares, const float* p,
                                          float* p_out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) p_out[i] = keep * p[i] - rate * x[i] / std::sqrt(squares[i]);
}

// Visits [first, last) in blocks: visit(start, count).
template <typename Visit>
void each_block(int64_t first, int64_t last, const Visit& visit) {
  for (int64_t i = first; i < last; i += kBlock) visit(i, std::min(kBlock, last - i));
}

// Reads parameter and gradient of each block, lets compute(start, count, gradient, parameter, out) make the new values,
// and writes them.
template <typename Compute>
void update_blocks(Rows parameter, Rows gradient, int64_t first, int64_t last, const Compute& compute) {
  float gradients[kBlock], parameters[kBlock], results[kBlock];
  each_block(first, last, [&](int64_t i, int64_t n) {
    float* out = target(parameter, i, results);
    compute(i, n, read(gradient, i, n, gradients), read(parameter, i, n, parameters), out);
    write(out, parameter, i, n);
  });
}

}  // namespace

void adamw(const AdamWStep& step, Rows parameter, Rows gradient, Rows first_moment, Rows second_moment, int64_t first,
           int64_t last) {
  const AdamWNumbers numbers{static_cast<float>(step.factor),     static_cast<float>(step.beta1),
                             static_cast<float>(step.beta2),      static_cast<float>(step.epsilon),
                             static_cast<float>(step.keep),       static_cast<float>(step.rate),
                             static_cast<float>(step.root_second)};
  const int64_t n = last - first;
  if (parameter.type == RowType::kF32) {
    adamw_wide(numbers, elements<float>(gradient, first), elements<float>(parameter, first),
               elements<float>(first_moment, first), elements<float>(second_moment, first), n);
  } else {
    adamw_narrow(numbers, elements<uint16_t>(gradient, first), elements<uint16_t>(parameter, first),
                 elements<uint16_t>(first_moment, first), elements<uint16_t>(second_moment, first), n);
  }
}

void sgd(const SgdStep& step, Rows parameter, Rows gradient, int64_t first, int64_t last) {
  const auto keep = static_cast<float>(step.keep), rate = static_cast<float>(step.rate * step.factor);
  update_blocks(parameter, gradient, first, last, [&](int64_t, int64_t n, const float* g, const float* p, float* out) {
    subtract_block(keep, rate, g, p, out, n);
  });
}

void lion(const LionStep& step, Rows parameter, Rows gradient, float* momentum, int64_t first, int64_t last) {
  const auto factor = static_cast<float>(step.factor), beta1 = static_cast<float>(step.beta1);
  const auto beta2 = static_cast<float>(step.beta2), keep = static_cast<float>(step.keep);
  const auto rate = static_cast<float>(step.rate);
  update_blocks(parameter, gradient, first, last,
                [&](int64_t i, int64_t n, const float* g, const float* p, float* out) {
                  lion_block(factor, beta1, beta2, keep, rate, g, p, momentum + i, out, n);
                });
}

void column_squares(Rows gradient, int64_t rows, int64_t columns, float* sums, int64_t first, int64_t last) {
  float buffer[kBlock];
  std::fill(sums + first, sums + last, 0.0f);
  each_block(first, last, [&](int64_t column, int64_t n) {
    for (int64_t row = 0; row < rows; ++row) {
      add_squares(read(gradient, row * columns + column, n, buffer), sums + column, n);
    }
  });
}

double scaled_row_squares(Rows gradient, const float* column_factors, int64_t row, int64_t columns) {
  float buffer[kBlock];
  double sum = 0;
  each_block(0, columns, [&](int64_t column, int64_t n) {
    sum += sum_of_scaled_squares(read(gradient, row * columns + column, n, buffer), column_factors + column, n);
  });
  return sum;
}

void factored_update(Rows parameter, Rows gradient, double keep, const float* row_factors, const float* column_factors,
                     int64_t columns, int64_t first, int64_t last) {
  for (int64_t row = first; row < last; ++row) {
    const int64_t start = row * columns;
    update_blocks(parameter, gradient, start, start + columns,
                  [&](int64_t i, int64_t n, const float* g, const float* p, float* out) {
                    subtract_scaled_block(static_cast<float>(keep), row_factors[row], g, column_factors + (i - start),
                                          p, out, n);
                  });
  }
}

double update_squares(Rows gradient, double factor, double decay, double epsilon, float* squares, int64_t first,
                      int64_t last) {
  float buffer[kBlock];
  double sum = 0;
  each_block(first, last, [&](int64_t i, int64_t n) {
    sum += squares_block(static_cast<float>(factor), static_cast<float>(decay), static_cast<float>(epsilon),
                         read(gradient, i, n, buffer), squares + i, n);
  });
  return sum;
}

void unfactored_update(Rows parameter, Rows gradient, double keep, double rate, const float* squares, int64_t first,
                       int64_t last) {
  update_blocks(parameter, gradient, first, last,
                [&](int64_t i, int64_t n, const float* g, const float* p, float* out) {
                  subtract_by_root_block(static_cast<float>(keep), static_cast<float>(rate), g, squares + i, p, out, n);
                });
}

}  // namespace fathom::cpu
