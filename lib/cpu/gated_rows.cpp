// Row by row.
#include "cpu/gated_rows.h"

#include <vector>

#include "cpu/exponential.h"
#include "cpu/row_blocks.h"

namespace fathom::cpu {
namespace {

float sigmoid_of(Rows gates, int64_t row) {
  float buffer = 0;
  return 1.0F / (1.0F + exponential(-*read(gates, row, 1, &buffer)));
}

void write_row(const float* x, float factor, Rows out, int64_t place, std::vector<float>& buffer) {
  const auto width = static_cast<int64_t>(buffer.size());
  float* to = target(out, place, buffer.data());
  multiply(x, factor, to, width);
  write(to, out, place, width);
}

}  // namespace

void gate_rows(Rows in, Rows gates, Rows out, int64_t first, int64_t last, int64_t width) {
  std::vector<float> a(width), b(width);
  for (int64_t row = first; row < last; ++row) {
    write_row(read(in, row * width, width, a.data()), sigmoid_of(gates, row), out, row * width, b);
  }
}

void gate_rows_backward(Rows grad_out, Rows in, Rows gates, Rows grad_in, Rows grad_gates, int64_t first, int64_t last,
                        int64_t width) {
  std::vector<float> a(width), b(width), c(width);
  for (int64_t row = first; row < last; ++row) {
    const float* upstream = read(grad_out, row * width, width, a.data());
    const float sigmoid = sigmoid_of(gates, row);
    const float slope = dot(upstream, read(in, row * width, width, b.data()), width) * sigmoid * (1.0F - sigmoid);
    write_row(upstream, sigmoid, grad_in, row * width, c);
    float buffer = 0;
    float* to = target(grad_gates, row, &buffer);
    *to = slope;
    write(to, grad_gates, row, 1);
  }
}

}  // namespace fathom::cpu
