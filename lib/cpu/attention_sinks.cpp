// A row is one head's output of one query.
#include "cpu/attention_sinks.h"

#include <cmath>
#include <vector>

#include "cpu/row_blocks.h"

namespace fathom::cpu {
namespace {

// log(e^a + e^b).
float log_of_sum(float a, float b) { return std::fmax(a, b) + std::log1p(std::exp(-std::fabs(a - b))); }

}  // namespace

void add_sinks(Rows out, float* logsumexp, const SinkRows& rows, int64_t first, int64_t last) {
  std::vector<float> sink_buffer(rows.heads), buffer(rows.size);
  const float* sinks = read(rows.sinks, 0, rows.heads, sink_buffer.data());
  for (int64_t row = first; row < last; ++row) {
    const int64_t place = row * rows.size;
    const float sink = sinks[row % rows.heads];
    const float factor = 1.0F / (1.0F + std::exp(sink - logsumexp[row]));
    const float* x = read(out, place, rows.size, buffer.data());
    float* to = target(out, place, buffer.data());
    multiply(x, factor, to, rows.size);
    write(to, out, place, rows.size);
    logsumexp[row] = log_of_sum(logsumexp[row], sink);
  }
}

void sinks_backward(Rows grad_out, Rows out, const float* logsumexp, const SinkRows& rows, float* grad_sinks,
                    int64_t first, int64_t last) {
  std::vector<float> sink_buffer(rows.heads), grad_buffer(rows.size), buffer(rows.size);
  const float* sinks = read(rows.sinks, 0, rows.heads, sink_buffer.data());
  for (int64_t row = first; row < last; ++row) {
    const int64_t place = row * rows.size, head = row % rows.heads;
    const float *grad = read(grad_out, place, rows.size, grad_buffer.data()),
                *x = read(out, place, rows.size, buffer.data());
    grad_sinks[head] -= std::exp(sinks[head] - logsumexp[row]) * dot(grad, x, rows.size);
  }
}

}  // namespace fathom::cpu
