// A division, a rounding, a clamp and a product for each number, a group of one step at a time.
#include "cpu/fake_quantize_kernels.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/clones.h"
#include "cpu/row_blocks.h"

namespace fathom::cpu {
namespace {

// In this order a NaN becomes the lowest code: its gradient and its step are NaN anyway.
inline float code_of(float value, float step, float lowest, float highest) {
  return std::min(std::max(lowest, std::nearbyint(value / step)), highest);
}

FATHOM_CLONES void round_group(const float* values, float step, float lowest, float highest, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = code_of(values[i], step, lowest, highest) * step;
}

FATHOM_CLONES void codes_of_group(const float* values, float step, float lowest, float highest, int8_t* codes,
                                  int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) codes[i] = static_cast<int8_t>(code_of(values[i], step, lowest, highest));
}

// Returns the gradient of log_step, that of the step times the step: within the codes d(read back) = read back - value,
// beyond them it is what is read back.
FATHOM_CLONES float group_backward(float* gradient, const float* values, float step, float lowest, float highest,
                                   int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const float place = values[i] / step;
    const bool inside = place >= lowest && place <= highest;
    const float read_back = code_of(values[i], step, lowest, highest) * step;
    sum += gradient[i] * (inside ? read_back - values[i] : read_back);
    gradient[i] = inside ? gradient[i] : 0.0f;
  }
  return sum;
}

FATHOM_CLONES float largest_of(const float* values, int64_t n) {
  float largest = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) largest = std::fabs(values[i]) > largest ? std::fabs(values[i]) : largest;
  return largest;
}

}  // namespace

void fake_quantize(Rows values, const float* log_steps, const StepGrid& grid, Rows out, int64_t first, int64_t last) {
  std::vector<float> in_buffer(grid.group), out_buffer(grid.group);
  for (int64_t group = first; group < last; ++group) {
    const int64_t place = group * grid.group;
    float* to = target(out, place, out_buffer.data());
    round_group(read(values, place, grid.group, in_buffer.data()), std::exp(log_steps[group]), grid.lowest,
                grid.highest, to, grid.group);
    write(to, out, place, grid.group);
  }
}

void fake_quantization_codes(Rows values, const float* log_steps, const StepGrid& grid, int8_t* codes, int64_t first,
                             int64_t last) {
  std::vector<float> buffer(grid.group);
  for (int64_t group = first; group < last; ++group) {
    const int64_t place = group * grid.group;
    codes_of_group(read(values, place, grid.group, buffer.data()), std::exp(log_steps[group]), grid.lowest,
                   grid.highest, codes + place, grid.group);
  }
}

void fake_quantize_backward(Rows gradient, Rows values, const float* log_steps, const StepGrid& grid,
                            float* log_step_gradients, int64_t first, int64_t last) {
  std::vector<float> value_buffer(grid.group), gradient_buffer(grid.group);
  for (int64_t group = first; group < last; ++group) {
    const int64_t place = group * grid.group;
    read(gradient, place, grid.group, gradient_buffer.data());
    float* in_place = target(gradient, place, gradient_buffer.data());
    log_step_gradients[group] = group_backward(in_place, read(values, place, grid.group, value_buffer.data()),
                                               std::exp(log_steps[group]), grid.lowest, grid.highest, grid.group);
    write(in_place, gradient, place, grid.group);
  }
}

void fake_quantize_tokens(Rows values, Rows out, int64_t first, int64_t last, int64_t width) {
  constexpr float kCodes = 127;
  std::vector<float> in_buffer(width), out_buffer(width);
  for (int64_t row = first; row < last; ++row) {
    const float* x = read(values, row * width, width, in_buffer.data());
    float* y = target(out, row * width, out_buffer.data());
    const float largest = largest_of(x, width);
    if (largest > 0) {
      round_group(x, largest / kCodes, -kCodes, kCodes, y, width);
    } else if (y != x) {
      std::copy_n(x, width, y);  // zeros
    }
    write(y, out, row * width, width);
  }
}

}  // namespace fathom::cpu
