// Loops that the compiler turns into vector code, one version per instruction set, chosen when the program starts.
#include "cpu/kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "cpu/exponential.h"
#include "cpu/row_blocks.h"

namespace fathom::cpu {
namespace {

FATHOM_CLONES float squares(const float* x, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return sum;
}

// A square of FP32 is exact in FP64, and so nearly is their sum, whatever its order.
FATHOM_CLONES double exact_squares(const float* x, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

FATHOM_CLONES float sum(const float* x, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

FATHOM_CLONES void add_number(const float* x, float number, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] + number;
}

FATHOM_CLONES void scale_rows(const float* x, const float* weight, float rstd, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = weight[i] * (x[i] * rstd);
}

FATHOM_CLONES float dot3(const float* a, const float* b, const float* c, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i] * c[i];
  return sum;
}

FATHOM_CLONES void norm_row_backward(const float* grad, const float* x, const float* weight, float rstd, float slope,
                                     float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = rstd * (grad[i] * weight[i] - x[i] * slope);
}

FATHOM_CLONES void accumulate_product(const float* a, const float* b, float scale, float* sum, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] += a[i] * (b[i] * scale);
}

FATHOM_CLONES void rotate_head(const float* x, const float* cos, const float* sin, float direction, float* out,
                               int64_t half) {
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const float low = x[i], high = x[i + half], turn = sin[i] * direction;
    out[i] = low * cos[i] - high * turn;
    out[i + half] = high * cos[i] + low * turn;
  }
}

FATHOM_CLONES void rotate_interleaved(const float* x, const float* cos, const float* sin, float direction, float* out,
                                      int64_t half) {
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const float low = x[2 * i], high = x[2 * i + 1], turn = sin[i] * direction;
    out[2 * i] = low * cos[i] - high * turn;
    out[2 * i + 1] = high * cos[i] + low * turn;
  }
}

struct Slope {
  float value, slope;
};

// x * sigmoid(inner(x)): silu, where that is x, and gelu, since (1 + tanh(u)) / 2 = sigmoid(2u).
template <typename Inner>
struct Sigmoidal {
  static float value(float x) { return x / (1.0f + exponential(-Inner::of(x))); }
  static Slope slope(float x) {
    const float sigmoid = 1.0f / (1.0f + exponential(-Inner::of(x)));
    const float value = x * sigmoid;
    return {value, sigmoid + value * (1.0f - sigmoid) * Inner::slope(x)};
  }
};
struct Itself {
  static float of(float x) { return x; }
  static float slope(float /*x*/) { return 1.0f; }
};
struct GeluCubic {  // 2 sqrt(2 / pi) (x + 0.044715 x^3)
  static constexpr float kLinear = 1.5957691216f, kCubic = 0.0713548163f;
  static float of(float x) { return x * (kLinear + kCubic * x * x); }
  static float slope(float x) { return kLinear + 3.0f * kCubic * x * x; }
};
struct Relu {
  static float value(float x) { return x < 0 ? 0.0f : x; }
  static Slope slope(float x) { return {value(x), x <= 0 ? 0.0f : 1.0f}; }
};
struct SquaredRelu {
  static float value(float x) { return Relu::value(x) * Relu::value(x); }
  static Slope slope(float x) { return {value(x), 2.0f * Relu::value(x)}; }
};

struct Sigmoid {
  static float value(float x) { return 1.0f / (1.0f + exponential(-x)); }
  static Slope slope(float x) { return {value(x), value(x) * (1.0f - value(x))}; }
};

template <typename Function>
[[gnu::always_inline]] inline void gate_block(const float* gate, const float* up, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = Function::value(gate[i]) * up[i];
}

template <typename Function>
[[gnu::always_inline]] inline void gate_block_backward(const float* grad, const float* gate, const float* up,
                                                       float* grad_gate, float* grad_up, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const Slope made = Function::slope(gate[i]);
    const float upstream = grad[i];
    grad_gate[i] = upstream * up[i] * made.slope;
    grad_up[i] = upstream * made.value;
  }
}

FATHOM_CLONES void silu_gate(const float* gate, const float* up, float* out, int64_t n) {
  gate_block<Sigmoidal<Itself>>(gate, up, out, n);
}
FATHOM_CLONES void gelu_gate(const float* gate, const float* up, float* out, int64_t n) {
  gate_block<Sigmoidal<GeluCubic>>(gate, up, out, n);
}
FATHOM_CLONES void relu_gate(const float* gate, const float* up, float* out, int64_t n) {
  gate_block<Relu>(gate, up, out, n);
}
FATHOM_CLONES void squared_relu_gate(const float* gate, const float* up, float* out, int64_t n) {
  gate_block<SquaredRelu>(gate, up, out, n);
}
FATHOM_CLONES void sigmoid_gate(const float* gate, const float* up, float* out, int64_t n) {
  gate_block<Sigmoid>(gate, up, out, n);
}
FATHOM_CLONES void silu_gate_backward(const float* grad, const float* gate, const float* up, float* grad_gate,
                                      float* grad_up, int64_t n) {
  gate_block_backward<Sigmoidal<Itself>>(grad, gate, up, grad_gate, grad_up, n);
}
FATHOM_CLONES void gelu_gate_backward(const float* grad, const float* gate, const float* up, float* grad_gate,
                                      float* grad_up, int64_t n) {
  gate_block_backward<Sigmoidal<GeluCubic>>(grad, gate, up, grad_gate, grad_up, n);
}
FATHOM_CLONES void relu_gate_backward(const float* grad, const float* gate, const float* up, float* grad_gate,
                                      float* grad_up, int64_t n) {
  gate_block_backward<Relu>(grad, gate, up, grad_gate, grad_up, n);
}
FATHOM_CLONES void squared_relu_gate_backward(const float* grad, const float* gate, const float* up, float* grad_gate,
                                              float* grad_up, int64_t n) {
  gate_block_backward<SquaredRelu>(grad, gate, up, grad_gate, grad_up, n);
}

FATHOM_CLONES void sigmoid_gate_backward(const float* grad, const float* gate, const float* up, float* grad_gate,
                                         float* grad_up, int64_t n) {
  gate_block_backward<Sigmoid>(grad, gate, up, grad_gate, grad_up, n);
}

// By the number of the activation.
constexpr std::array kGates = {&silu_gate, &gelu_gate, &relu_gate, &squared_relu_gate, &sigmoid_gate};
constexpr std::array kGatesBackward = {&silu_gate_backward, &gelu_gate_backward, &relu_gate_backward,
                                       &squared_relu_gate_backward, &sigmoid_gate_backward};
static_assert(static_cast<int>(Activation::kSilu) == 0 && static_cast<int>(Activation::kGelu) == 1 &&
              static_cast<int>(Activation::kRelu) == 2 && static_cast<int>(Activation::kSquaredRelu) == 3 &&
              static_cast<int>(Activation::kSigmoid) == 4);

FATHOM_CLONES float largest(const float* x, int64_t n) {
  float result = x[0];
#pragma omp simd reduction(max : result)
  for (int64_t i = 0; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

FATHOM_CLONES float sum_of_exponentials(const float* x, float shift, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += exponential(x[i] - shift);
  return sum;
}

FATHOM_CLONES void scaled_exponentials(const float* x, float shift, float scale, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = exponential(x[i] - shift) * scale;
}

// A row as long as the buffer, with `offset` added to it; ones without data.
const float* read_with_offset(Rows row, double offset, std::vector<float>& buffer) {
  if (row.data == nullptr) {
    std::fill(buffer.begin(), buffer.end(), 1.0f);
    return buffer.data();
  }
  const auto width = static_cast<int64_t>(buffer.size());
  const float* x = read(row, 0, width, buffer.data());
  if (offset == 0) return x;
  for (int64_t i = 0; i < width; ++i) buffer[i] = x[i] + static_cast<float>(offset);
  return buffer.data();
}

}  // namespace

void norm(Rows in, const Norm& norm, Rows out, float* mean, float* rstd, int64_t first, int64_t last, int64_t width) {
  std::vector<float> weight_buffer(width), bias_buffer(width), in_buffer(width), out_buffer(width);
  const float* weight = read_with_offset(norm.weight, norm.offset, weight_buffer);
  const float* bias = norm.bias.data == nullptr ? nullptr : read(norm.bias, 0, width, bias_buffer.data());
  for (int64_t row = first; row < last; ++row) {
    const float* x = read(in, row * width, width, in_buffer.data());
    if (mean != nullptr) {
      mean[row] = sum(x, width) / static_cast<float>(width);
      add_number(x, -mean[row], in_buffer.data(), width);
      x = in_buffer.data();
    }
    rstd[row] = 1.0f / std::sqrt(squares(x, width) / static_cast<float>(width) + static_cast<float>(norm.eps));
    float* y = target(out, row * width, out_buffer.data());
    scale_rows(x, weight, rstd[row], y, width);
    if (bias != nullptr) accumulate(bias, y, width);
    write(y, out, row * width, width);
  }
}

void norm_backward(Rows grad_out, Rows in, const Norm& norm, const float* mean, const float* rstd, Rows grad_in,
                   float* grad_weight, float* grad_bias, int64_t first, int64_t last, int64_t width) {
  std::vector<float> weight_buffer(width), grad_buffer(width), in_buffer(width), out_buffer(width);
  const float* weight = read_with_offset(norm.weight, norm.offset, weight_buffer);
  for (int64_t row = first; row < last; ++row) {
    const float* grad = read(grad_out, row * width, width, grad_buffer.data());
    const float* x = read(in, row * width, width, in_buffer.data());
    if (mean != nullptr) {
      add_number(x, -mean[row], in_buffer.data(), width);
      x = in_buffer.data();
    }
    const float slope = dot3(grad, weight, x, width) * rstd[row] / static_cast<float>(width);
    float* out = target(grad_in, row * width, out_buffer.data());
    norm_row_backward(grad, x, weight, rstd[row], slope * rstd[row], out, width);
    if (mean != nullptr) {
      add_number(out, -rstd[row] * dot(grad, weight, width) / static_cast<float>(width), out, width);
    }
    write(out, grad_in, row * width, width);
    if (grad_weight != nullptr) accumulate_product(grad, x, rstd[row], grad_weight, width);
    if (grad_bias != nullptr) accumulate(grad, grad_bias, width);
  }
}

void rotate(Rows in, const float* cos, const float* sin, Rows out, const TurnedHeads& turned, int64_t positions,
            float direction, int64_t first, int64_t last) {
  const int64_t size = turned.size, half = turned.width / 2;
  std::vector<float> in_buffer(size), out_buffer(size);
  const auto turn = turned.interleaved ? &rotate_interleaved : &rotate_head;
  for (int64_t row = first; row < last; ++row) {
    const int64_t angle = row / turned.heads % positions * half;
    const float* x = read(in, row * size, size, in_buffer.data());
    float* y = target(out, row * size, out_buffer.data());
    turn(x, cos + angle, sin + angle, direction, y, half);
    std::copy(x + turned.width, x + size, y + turned.width);
    write(y, out, row * size, size);
  }
}

void gate(Activation activation, Rows gate, Rows up, Rows out, int64_t first, int64_t last) {
  const auto block = kGates[static_cast<size_t>(activation)];
  float gate_buffer[kBlock], up_buffer[kBlock], out_buffer[kBlock];
  for (int64_t i = first; i < last; i += kBlock) {
    const int64_t n = std::min(kBlock, last - i);
    float* y = target(out, i, out_buffer);
    block(read(gate, i, n, gate_buffer), read(up, i, n, up_buffer), y, n);
    write(y, out, i, n);
  }
}

void gate_backward(Activation activation, Rows grad_out, Rows gate, Rows up, Rows grad_gate, Rows grad_up,
                   int64_t first, int64_t last) {
  const auto block = kGatesBackward[static_cast<size_t>(activation)];
  float grad_buffer[kBlock], gate_buffer[kBlock], up_buffer[kBlock], grad_gate_buffer[kBlock], grad_up_buffer[kBlock];
  for (int64_t i = first; i < last; i += kBlock) {
    const int64_t n = std::min(kBlock, last - i);
    float* to_gate = target(grad_gate, i, grad_gate_buffer);
    float* to_up = target(grad_up, i, grad_up_buffer);
    block(read(grad_out, i, n, grad_buffer), read(gate, i, n, gate_buffer), read(up, i, n, up_buffer), to_gate, to_up,
          n);
    write(to_gate, grad_gate, i, n);
    write(to_up, grad_up, i, n);
  }
}

double cross_entropy(Rows logits, const int64_t* targets, int64_t ignored, double gradient_scale, int64_t first,
                     int64_t last, int64_t vocabulary) {
  std::vector<float> buffer(logits.type == RowType::kF32 ? 0 : vocabulary);
  double sum = 0;
  for (int64_t row = first; row < last; ++row) {
    if (targets[row] == ignored) {
      if (gradient_scale != 0) std::memset(at(logits, row * vocabulary), 0, vocabulary * size_of(logits.type));
      continue;
    }
    const float* x = read(logits, row * vocabulary, vocabulary, buffer.data());
    const float shift = largest(x, vocabulary);
    const float total = sum_of_exponentials(x, shift, vocabulary);
    sum += std::log(static_cast<double>(total)) + shift - x[targets[row]];
    if (gradient_scale == 0) continue;
    float* gradient = target(logits, row * vocabulary, buffer.data());
    const float scale = static_cast<float>(gradient_scale);
    scaled_exponentials(x, shift, scale / total, gradient, vocabulary);
    gradient[targets[row]] -= scale;
    write(gradient, logits, row * vocabulary, vocabulary);
  }
  return sum;
}

double sum_of_squares(Rows values, int64_t first, int64_t last) {
  float buffer[kBlock];
  double sum = 0;
  for (int64_t i = first; i < last; i += kBlock) {
    const int64_t n = std::min(kBlock, last - i);
    sum += exact_squares(read(values, i, n, buffer), n);
  }
  return sum;
}

void convert(Rows from, Rows to, int64_t first, int64_t last) {
  float from_buffer[kBlock], to_buffer[kBlock];
  for (int64_t i = first; i < last; i += kBlock) {
    const int64_t n = std::min(kBlock, last - i);
    const float* values = read(from, i, n, from_buffer);
    float* out = target(to, i, to_buffer);
    if (out != to_buffer) std::memcpy(out, values, n * sizeof(float));
    write(values, to, i, n);
  }
}

}  // namespace fathom::cpu
