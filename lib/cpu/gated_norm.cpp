// Row by row, each of which is short.
#include "cpu/gated_norm.h"

#include <cmath>
#include <vector>

#include "cpu/exponential.h"
#include "cpu/row_blocks.h"

namespace fathom::cpu {
namespace {

FATHOM_CLONES void weigh(const float* x, float factor, const float* gate, const float* weight, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * factor * weight[i] * gate[i] / (1.0F + exponential(-gate[i]));
}

// normed: x * factor; of_normed: the gradient of that; of_weight += upstream * normed * silu(gate), unless it is null.
struct RowGradients {
  float *normed, *of_normed, *of_gate, *of_weight;
};
FATHOM_CLONES void weigh_backward(const float* upstream, const float* x, float factor, const float* gate,
                                  const float* weight, const RowGradients& made, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float sigmoid = 1.0F / (1.0F + exponential(-gate[i])), silu = gate[i] * sigmoid;
    made.normed[i] = x[i] * factor;
    made.of_normed[i] = upstream[i] * weight[i] * silu;
    made.of_gate[i] = upstream[i] * weight[i] * made.normed[i] * (sigmoid + silu * (1.0F - sigmoid));
    if (made.of_weight != nullptr) made.of_weight[i] += upstream[i] * made.normed[i] * silu;
  }
}

FATHOM_CLONES void through_norm(const RowGradients& made, float mean, float factor, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = factor * (made.of_normed[i] - made.normed[i] * mean);
}

float factor_of(const float* x, double eps, int64_t n) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(dot(x, x, n)) / static_cast<double>(n) + eps));
}

}  // namespace

void gated_norm(Rows in, Rows gate, Rows weight, double eps, Rows out, int64_t first, int64_t last, int64_t width) {
  std::vector<float> a(width), b(width), c(width), d(width);
  const float* weights = read(weight, 0, width, d.data());
  for (int64_t row = first; row < last; ++row) {
    const int64_t place = row * width;
    const float *x = read(in, place, width, a.data()), *gates = read(gate, place, width, b.data());
    float* to = target(out, place, c.data());
    weigh(x, factor_of(x, eps, width), gates, weights, to, width);
    write(to, out, place, width);
  }
}

void gated_norm_backward(Rows grad_out, Rows in, Rows gate, Rows weight, double eps, Rows grad_in, Rows grad_gate,
                         float* grad_weight, int64_t first, int64_t last, int64_t width) {
  std::vector<float> a(width), b(width), c(width), d(width), normed(width), of_normed(width), made(width);
  const float* weights = read(weight, 0, width, d.data());
  for (int64_t row = first; row < last; ++row) {
    const int64_t place = row * width;
    const float *x = read(in, place, width, a.data()), *gates = read(gate, place, width, b.data());
    const float *upstream = read(grad_out, place, width, c.data()), factor = factor_of(x, eps, width);
    const RowGradients row_made = {normed.data(), of_normed.data(), target(grad_gate, place, made.data()), grad_weight};
    weigh_backward(upstream, x, factor, gates, weights, row_made, width);
    write(row_made.of_gate, grad_gate, place, width);
    const float mean = dot(of_normed.data(), normed.data(), width) / static_cast<float>(width);
    float* to = target(grad_in, place, made.data());
    through_norm(row_made, mean, factor, to, width);
    write(to, grad_in, place, width);
  }
}

}  // namespace fathom::cpu
