// Rotary position embedding (Su et al. 2021, arXiv 2104.09864) in the half-split layout of Hugging Face's Llama, or in
// pairs of neighbours, of whole heads or of their front.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "arch/rope.h"
#include "ledger/ledger.h"

namespace fathom::ops {

// The angles of positions: cosines and sines in FP32, [S, width / 2] each, times what turned numbers are multiplied by.
struct Turn {
  at::Tensor cos_SE2 = {}, sin_SE2 = {};
};
// How queries and keys are turned. Both by the same tensors, unless queries are scaled.
struct Turns {
  Turn queries = {}, keys = {};
  bool interleaved = false;
};
// The rows of some positions, int64 or int32.
Turns at_positions(const Turns& turns, const at::Tensor& positions_T);

// Turns for every position, as many as the longest sequence so far or as were reserved, rounded up to a power of two
// and to 64. Of LongRoPE two, one for passes that end within the original positions, one for those that reach beyond
// them.
class RotaryTable {
 public:
  // The ledger (may be null) is told that the tables are weights: they are buffers of the model.
  RotaryTable(arch::Rotary rotary, at::Device device, ledger::Ledger* ledger);
  void reserve(int64_t length);
  // From which on all positions of a pass are turned otherwise; 0: there are none.
  int64_t original_positions() const { return original_positions_; }
  // Of positions [first, first + count).
  Turns rows(int64_t first, int64_t count);

 private:
  struct Table {
    bool beyond_original = false;
    int64_t length = 0;
    Turn keys = {}, queries = {};  // queries: undefined where they are turned as keys are
  };
  Table& table_for(int64_t length);
  void grow(Table& table, int64_t length);
  Turn empty_turn(int64_t length) const;
  void fill(const Turn& turn, const Table& table, bool of_queries) const;

  arch::Rotary rotary_;
  int64_t original_positions_;
  at::Device device_;
  ledger::Ledger* ledger_;
  Table within_, beyond_{.beyond_original = true};
};

// Turns the first numbers of each head, in pairs (i, i + width / 2), or (2i, 2i + 1) if interleaved, by the angle of
// its position: y[a] = x[a] cos - x[b] sin,  y[b] = x[b] cos + x[a] sin; the rest stays as it is. x_BSHE: contiguous.
// Returns a new contiguous tensor of the same type; keeps nothing but the tables for the backward pass.
at::Tensor rotate(const at::Tensor& x_BSHE, const Turn& turn, bool interleaved = false);

}  // namespace fathom::ops
