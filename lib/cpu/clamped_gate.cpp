// Pairs of a gate and an up, a block of them at a time.
#include "cpu/clamped_gate.h"

#include <algorithm>

#include "cpu/exponential.h"
#include "cpu/row_blocks.h"

namespace fathom::cpu {
namespace {

constexpr int64_t kPairs = kBlock / 2;

inline float at_most(float x, float limit) { return x > limit ? limit : x; }
inline float within(float x, float limit) { return x < -limit ? -limit : at_most(x, limit); }

FATHOM_CLONES void gate_pairs(const float* gate_up, float slope, float limit, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float gate = at_most(gate_up[2 * i], limit), up = within(gate_up[2 * i + 1], limit);
    out[i] = (up + 1.0F) * gate / (1.0F + exponential(-slope * gate));
  }
}

FATHOM_CLONES void gate_pairs_backward(const float* grad, const float* gate_up, float slope, float limit,
                                       float* grad_gate_up, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float raw_gate = gate_up[2 * i], raw_up = gate_up[2 * i + 1];
    const float gate = at_most(raw_gate, limit), up = within(raw_up, limit);
    const float sigmoid = 1.0F / (1.0F + exponential(-slope * gate)), value = gate * sigmoid;
    const float of_gate = grad[i] * (up + 1.0F) * (sigmoid + slope * value * (1.0F - sigmoid));
    const float of_up = grad[i] * value;
    grad_gate_up[2 * i] = raw_gate > limit ? 0.0F : of_gate;
    grad_gate_up[2 * i + 1] = raw_up > limit || raw_up < -limit ? 0.0F : of_up;
  }
}

}  // namespace

void clamped_gate(const ClampedGate& gate, Rows gate_up, Rows out, int64_t first, int64_t last) {
  const auto slope = static_cast<float>(gate.slope), limit = static_cast<float>(gate.limit);
  float pairs[kBlock], made[kPairs];
  for (int64_t i = first; i < last; i += kPairs) {
    const int64_t n = std::min(kPairs, last - i);
    float* y = target(out, i, made);
    gate_pairs(read(gate_up, 2 * i, 2 * n, pairs), slope, limit, y, n);
    write(y, out, i, n);
  }
}

void clamped_gate_backward(const ClampedGate& gate, Rows grad_out, Rows gate_up, Rows grad_gate_up, int64_t first,
                           int64_t last) {
  const auto slope = static_cast<float>(gate.slope), limit = static_cast<float>(gate.limit);
  float grads[kPairs], pairs[kBlock], made[kBlock];
  for (int64_t i = first; i < last; i += kPairs) {
    const int64_t n = std::min(kPairs, last - i);
    float* y = target(grad_gate_up, 2 * i, made);
    gate_pairs_backward(read(grad_out, i, n, grads), read(gate_up, 2 * i, 2 * n, pairs), slope, limit, y, n);
    write(y, grad_gate_up, 2 * i, 2 * n);
  }
}

}  // namespace fathom::cpu
