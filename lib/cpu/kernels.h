// The arithmetic of the model's own operators on rows of memory, for CPUs.
//
// Rows are FP32, BF16 or FP16 (both passed as uint16_t); those of 16 bits are widened, computed in FP32 and rounded
// once, to nearest even. Nothing here allocates through LibTorch, so the memory of an operator is what its caller asks
// for.
#pragma once

#include <cstdint>

namespace fathom::cpu {

// Where rows begin, and of what.
enum class RowType { kF32, kBF16, kF16 };
struct Rows {
  void* data = nullptr;
  RowType type = RowType::kF32;
};

// out[t] = in[t] * rstd[t] * (weight + offset), rstd[t] = 1 / sqrt(mean(in[t]^2) + eps), for rows [first, last) of
// `width`.
void rms_norm(Rows in, Rows weight, double offset, double eps, Rows out, float* rstd, int64_t first, int64_t last,
              int64_t width);
// With g = grad_out * (weight + offset) and n = in * rstd:  grad_in = rstd * (g - n * mean(g * n));  grad_weight +=
// grad_out * n. grad_weight: FP32, or null where the weight is frozen.
void rms_norm_backward(Rows grad_out, Rows in, Rows weight, double offset, const float* rstd, Rows grad_in,
                       float* grad_weight, int64_t first, int64_t last, int64_t width);

// How heads of `size` numbers are turned: the first `width` of them, in pairs (2i, 2i + 1) or (i, i + width / 2).
struct TurnedHeads {
  int64_t heads = 0, size = 0, width = 0;
  bool interleaved = false;
};
// Rows [first, last) of [B*S*H, E]: position of row r is (r / heads) % positions. direction: 1 turns, -1 turns back.
void rotate(Rows in, const float* cos, const float* sin, Rows out, const TurnedHeads& turned, int64_t positions,
            float direction, int64_t first, int64_t last);

// Elements [first, last): out = gate * sigmoid(gate) * up.
void swiglu(Rows gate, Rows up, Rows out, int64_t first, int64_t last);
void swiglu_backward(Rows grad_out, Rows gate, Rows up, Rows grad_gate, Rows grad_up, int64_t first, int64_t last);

// Returns the sum over rows [first, last) of logsumexp(logits) - logits[target], rows with target `ignored` left out.
// gradient_scale: if not 0, the rows become (softmax(logits) - onehot(target)) * gradient_scale, zero where ignored.
double cross_entropy(Rows logits, const int64_t* targets, int64_t ignored, double gradient_scale, int64_t first,
                     int64_t last, int64_t vocabulary);

// The sum of squares of elements [first, last): in FP32 within short blocks, in double between them.
double sum_of_squares(Rows values, int64_t first, int64_t last);

// to = from, between types, elements [first, last).
void convert(Rows from, Rows to, int64_t first, int64_t last);

}  // namespace fathom::cpu
