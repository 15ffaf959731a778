// One key head of a text and the value heads that it serves, a chunk of tokens at a time, on a CPU.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "cpu/kernels.h"
#include "ops/delta/delta_inputs.h"

namespace fathom::ops {

// Of all heads, as DeltaInputs has them.
struct HeadRows {
  cpu::Rows mixed, strengths, decays;
  const float *rates = nullptr, *biases = nullptr;
};

// Where gradients are, and where they go beside those that take the place of what was read.
struct DeltaGradientRows {
  cpu::Rows of_answers, strengths, decays;
  float *rates = nullptr, *biases = nullptr;  // sums of one text, of each value head
};

// States are [key_dim, value_dim].
class KeyHead {
 public:
  // Refers to both.
  KeyHead(const arch::GatedDelta& delta, const HeadRows& rows, int64_t head);

  int64_t group() const { return group_; }  // value heads
  int64_t value_head(int64_t member) const { return head_ * group_ + member; }
  int64_t state_size() const { return its_.key_dim * its_.value_dim; }
  size_t states_size() const { return static_cast<size_t>(group_ * state_size()); }

  // Queries and keys of rows [first, first + count).
  void load_chunk(int64_t first, int64_t count);
  // What one value head's tokens write, with the state before the chunk.
  void load_value_head(int64_t member, const float* state);
  // Of this value head: what queries read, after which its values are no longer there; then the state behind the chunk.
  void answer(const float* state, cpu::Rows out);
  void move_on(float* state);

  // Between load_chunk and the next one; of each value head, behind load_value_head: `after` is the state behind the
  // chunk, null behind the last one, and of_after its gradient, which becomes that of the state before.
  void begin_gradients();
  void take_back(const float* state, const float* after, float* of_after, const DeltaGradientRows& to);
  void end_gradients();

 private:
  using Numbers = std::vector<float>;
  using OfTokens = std::array<float, kDeltaChunk>;

  int64_t query_place(int64_t i) const;
  int64_t key_place(int64_t i) const { return query_place(i) + its_.keys(); }
  int64_t value_place(int64_t i) const;
  int64_t answer_place(int64_t i) const { return (first_ + i) * its_.values() + value_head(member_) * its_.value_dim; }
  int64_t gate_place(int64_t i) const { return (first_ + i) * its_.value_heads + value_head(member_); }

  void make_gradients_of_written(const float* of_after, cpu::Rows of_answers);
  void make_gradients_of_pairs();
  void make_gradients_of_keys(const float* state, const float* of_after);
  void write_gradients(const float* after, const float* of_after, const DeltaGradientRows& to);

  const arch::GatedDelta& its_;
  const HeadRows& rows_;
  const int64_t head_, group_;
  const float scale_;
  int64_t first_ = 0, n_ = 0, member_ = 0;
  Numbers queries_, keys_, among_keys_, scores_;  // the last two: K K^T and Q K^T
  OfTokens query_norms_, key_norms_;
  // Of the value head: b, a + dt, the logarithms of decays and their sums c, e^c, e^(c_n - c), and -b e^c.
  OfTokens strengths_, inner_, logs_, totals_, from_start_, to_end_, minus_read_;
  OfTokens of_totals_, by_reading_;
  Numbers pair_decays_, lower_, decayed_scores_, values_, written_, buffer_;
  Numbers grad_queries_, grad_keys_, of_answers_, of_written_, of_scores_, of_lower_, of_queries_, reading_, writing_;
};

}  // namespace fathom::ops
