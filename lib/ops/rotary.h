// Rotary position embedding (Su et al. 2021, arXiv 2104.09864) in the half-split layout of Hugging Face's Llama.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "arch/rotary_frequencies.h"
#include "ledger/ledger.h"

namespace fathom::ops {

// cos and sin of position * frequency in FP32, [length, E/2] each, as long as the longest sequence so far or as was
// reserved, rounded up to a power of two and to 64.
class RotaryTable {
 public:
  // The ledger (may be null) is told that the tables are weights: they are buffers of the model.
  // frequencies: of each of the E/2 pairs.
  RotaryTable(std::vector<float> frequencies, at::Device device, ledger::Ledger* ledger);
  void reserve(int64_t length);
  // The rows of positions [first, first + count).
  std::pair<at::Tensor, at::Tensor> rows(int64_t first, int64_t count);

 private:
  void grow(int64_t length);
  std::vector<float> frequencies_;
  at::Device device_;
  ledger::Ledger* ledger_;
  int64_t length_ = 0;
  at::Tensor cos_SE2_, sin_SE2_;
};

// Turns each head's pairs (i, i + E/2) by the angle of its position:
//   y[i] = x[i] cos - x[i+E/2] sin,  y[i+E/2] = x[i+E/2] cos + x[i] sin
// x_BSHE: contiguous. Returns a new contiguous tensor of the same type; keeps nothing but the tables for the backward
// pass.
at::Tensor rotate(const at::Tensor& x_BSHE, const at::Tensor& cos_SE2, const at::Tensor& sin_SE2);

}  // namespace fathom::ops
