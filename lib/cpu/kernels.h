// The arithmetic of the model's own operators on rows of memory, for CPUs.
//
// Rows are FP32, BF16 or FP16 (both passed as uint16_t); those of 16 bits are widened, computed in FP32 and rounded
// once, to nearest even. Nothing here allocates through LibTorch, so the memory of an operator is what its caller asks
// for.
#pragma once

#include <cstdint>

#include "base/activation.h"

namespace fathom::cpu {

// Where rows begin, and of what.
enum class RowType { kF32, kBF16, kF16 };
struct Rows {
  void* data = nullptr;
  RowType type = RowType::kF32;
};

// What rows are normalised with.
struct Norm {
  Rows weight;     // without data: all are 1, whatever the offset
  Rows bias = {};  // without data: there is none
  double offset = 0, eps = 0;
};
// out[t] = n[t] * (weight + offset) + bias with n[t] = (in[t] - mean[t]) * rstd[t] and rstd[t] = 1 / sqrt(mean of
// (in[t] - mean[t])^2 + eps), for rows [first, last) of `width`. mean: null where it is taken to be 0.
void norm(Rows in, const Norm& norm, Rows out, float* mean, float* rstd, int64_t first, int64_t last, int64_t width);
// With g = grad_out * (weight + offset):  grad_in = rstd * (g - n * mean(g * n)), of centred rows less rstd * mean(g);
// grad_weight += grad_out * n; grad_bias += grad_out. These are FP32, and null where they are not wanted.
void norm_backward(Rows grad_out, Rows in, const Norm& norm, const float* mean, const float* rstd, Rows grad_in,
                   float* grad_weight, float* grad_bias, int64_t first, int64_t last, int64_t width);

// How heads of `size` numbers are turned: the first `width` of them, in pairs (2i, 2i + 1) or (i, i + width / 2).
struct TurnedHeads {
  int64_t heads = 0, size = 0, width = 0;
  bool interleaved = false;
};
// Rows [first, last) of [B*S*H, E]: position of row r is (r / heads) % positions. direction: 1 turns, -1 turns back.
void rotate(Rows in, const float* cos, const float* sin, Rows out, const TurnedHeads& turned, int64_t positions,
            float direction, int64_t first, int64_t last);

// Elements [first, last): out = activation(gate) * up.
void gate(Activation activation, Rows gate, Rows up, Rows out, int64_t first, int64_t last);
void gate_backward(Activation activation, Rows grad_out, Rows gate, Rows up, Rows grad_gate, Rows grad_up,
                   int64_t first, int64_t last);

// Returns the sum over rows [first, last) of logsumexp(logits) - logits[target], rows with target `ignored` left out.
// gradient_scale: if not 0, the rows become (softmax(logits) - onehot(target)) * gradient_scale, zero where ignored.
double cross_entropy(Rows logits, const int64_t* targets, int64_t ignored, double gradient_scale, int64_t first,
                     int64_t last, int64_t vocabulary);

// The sum of squares of elements [first, last), in FP64.
double sum_of_squares(Rows values, int64_t first, int64_t last);

// to = from, between types, elements [first, last).
void convert(Rows from, Rows to, int64_t first, int64_t last);

}  // namespace fathom::cpu
