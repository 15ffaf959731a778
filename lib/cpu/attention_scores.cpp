// A row's numbers stay in the nearest cache from its first pass to its last.
#include "cpu/attention_scores.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "cpu/exponential.h"
#include "cpu/row_blocks.h"

namespace fathom::cpu {
namespace {

// tanh to 2 units in the last place: a polynomial for small numbers (Cephes' tanhf), by e^2x for others.
inline float hyperbolic_tangent(float x) {
  const float square = x * x;
  float p = -5.70498872745e-3f;
  p = p * square + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  const float small = p * square * x + x, large = 1.0f - 2.0f / (exponential(2.0f * x) + 1.0f);
  return square < 0.390625f ? small : large;
}

FATHOM_CLONES void tangents(const float* x, float scale, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = hyperbolic_tangent(x[i] * scale);
}

// out = x * scale + bias, negative infinity where hidden. Returns the largest; of one loop for both gcc makes no
// vectors.
FATHOM_CLONES float add_bias(const float* x, float scale, const float* bias, const bool* hidden, float* out,
                             int64_t n) {
  const float none = -std::numeric_limits<float>::infinity();
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float score = x[i] * scale + bias[i];
    out[i] = hidden[i] ? none : score;
  }
  float largest = none;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) largest = out[i] > largest ? out[i] : largest;
  return largest;
}

// x = e^(x - shift), 0 where that is no normal number. Returns their sum.
FATHOM_CLONES float raise(float* x, float shift, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const float exponent = x[i] - shift;
    x[i] = exponent < -87.3f ? 0.0f : exponential(exponent);
    sum += x[i];
  }
  return sum;
}

FATHOM_CLONES void leave_out(const float* x, const bool* left_out, float scale, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = left_out[i] ? 0.0f : x[i] * scale;
}

FATHOM_CLONES void softmax_backward(const float* p, const float* gradient, float mean, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = p[i] * (gradient[i] - mean);
}

FATHOM_CLONES void tangent_backward(const float* tangent, float* gradient, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) gradient[i] *= 1.0f - tangent[i] * tangent[i];
}

// What the rows of one call share.
class Softmax {
 public:
  explicit Softmax(const ScoreRows& rows)
      : rows_(rows),
        tangents_(rows.softcap > 0 ? rows.keys : 0),
        no_bias_(rows.bias == nullptr ? rows.keys : 0),
        none_hidden_(rows.hidden == nullptr ? rows.keys : 0) {}

  // The probabilities of row `row`, none left out. products: read before anything is written to `out`.
  void probabilities(const float* products, int64_t row, float* out) {
    const int64_t n = rows_.keys;
    float scale = rows_.scale;
    if (rows_.softcap > 0) {
      tangents(products, scale / rows_.softcap, tangents_.data(), n);
      products = tangents_.data();
      scale = rows_.softcap;
    }
    const float shift = add_bias(products, scale, bias(row), hidden(row), out, n);
    multiply(out, 1.0f / raise(out, shift, n), out, n);
  }

  // Turns the gradient of the last row's scores into that of its products.
  void back(float* gradient) const {
    if (rows_.softcap > 0) tangent_backward(tangents_.data(), gradient, rows_.keys);
    if (rows_.scale != 1) multiply(gradient, rows_.scale, gradient, rows_.keys);
  }

  int64_t group(int64_t row) const { return row / (rows_.queries * rows_.repeats); }
  int64_t query(int64_t row) const { return row / rows_.repeats % rows_.queries; }

 private:
  const float* bias(int64_t row) const {
    if (rows_.bias == nullptr) return no_bias_.data();
    const int64_t head = group(row) % rows_.key_heads * rows_.repeats + row % rows_.repeats;
    return rows_.bias + head * rows_.bias_stride + query(row);
  }
  const bool* hidden(int64_t row) const {
    if (rows_.hidden == nullptr) return reinterpret_cast<const bool*>(none_hidden_.data());
    return rows_.hidden + group(row) / rows_.key_heads * rows_.keys;
  }

  const ScoreRows& rows_;
  std::vector<float> tangents_, no_bias_;
  std::vector<char> none_hidden_;
};

}  // namespace

void attention_probabilities(Rows products, const ScoreRows& rows, int64_t first, int64_t last) {
  const int64_t n = rows.keys;
  Softmax softmax(rows);
  std::vector<float> buffer(n);
  for (int64_t row = first; row < last; ++row) {
    float* out = target(products, row * n, buffer.data());
    softmax.probabilities(read(products, row * n, n, buffer.data()), row, out);
    if (rows.left_out != nullptr) leave_out(out, rows.left_out + row * n, rows.kept_scale, out, n);
    write(out, products, row * n, n);
  }
}

void attention_probabilities_backward(Rows products, Rows gradient, const ScoreRows& rows, float* grad_bias,
                                      int64_t grad_bias_stride, int64_t first, int64_t last) {
  const int64_t n = rows.keys;
  Softmax softmax(rows);
  std::vector<float> products_buffer(n), gradient_buffer(n), p(n);
  for (int64_t row = first; row < last; ++row) {
    softmax.probabilities(read(products, row * n, n, products_buffer.data()), row, p.data());
    const float* of_kept = read(gradient, row * n, n, gradient_buffer.data());
    float* out = target(gradient, row * n, gradient_buffer.data());
    float* kept = target(products, row * n, products_buffer.data());
    if (rows.left_out != nullptr) {
      const bool* left_out = rows.left_out + row * n;
      leave_out(of_kept, left_out, rows.kept_scale, out, n);
      leave_out(p.data(), left_out, rows.kept_scale, kept, n);
      of_kept = out;
    } else {
      std::copy(p.begin(), p.end(), kept);
    }
    write(kept, products, row * n, n);
    softmax_backward(p.data(), of_kept, dot(p.data(), of_kept, n), out, n);
    if (grad_bias != nullptr) {
      accumulate(out, grad_bias + softmax.group(row) * grad_bias_stride + softmax.query(row), n);
    }
    softmax.back(out);
    write(out, gradient, row * n, n);
  }
}

}  // namespace fathom::cpu
