// The memory that attention in AMX's tiles works in, for each thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/attention_shares.h"

namespace fathom::cpu::amx {

// Keys whose scores are made at once, forward and backward.
inline constexpr int64_t kForwardKeys = 512, kBackwardKeys = 128;

// Hands out parts of a block one after the other; without a block it only counts their bytes.
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(void* block) : block_(static_cast<std::byte*>(block)) {}
  template <typename T>
  T* take(int64_t count) {
    std::byte* part = block_ == nullptr ? nullptr : block_ + bytes_;
    bytes_ += (count * static_cast<int64_t>(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<T*>(part);
  }
  int64_t bytes() const { return bytes_; }

 private:
  static constexpr int64_t kAlignment = 64;
  std::byte* block_ = nullptr;
  int64_t bytes_ = 0;
};

// Letters: S the longest document and E the head, padded to whole tiles; Q queries and C keys at once.
struct Sides {
  Sides(int64_t longest, int64_t head_size, int64_t keys_at_once);
  int64_t length, width;  // S, E
  int64_t queries, keys;  // Q, C
};
struct ForwardScratch {
  ForwardScratch(Scratch& scratch, int64_t longest, int64_t head_size);
  Sides sides;
  uint16_t *keys_ES, *values_SE;  // paired
  uint16_t *strip_E, *queries_QE, *probabilities_QC;
  float *scores_QC, *out_QE;
};
struct BackwardScratch {
  BackwardScratch(Scratch& scratch, int64_t longest, int64_t head_size);
  Sides sides;
  uint16_t *keys_SE, *values_SE, *keys_ES;
  uint16_t* rows_QE;
  uint16_t *queries_EQ, *queries_QE, *gradient_EQ, *gradient_QE;  // paired
  uint16_t *probabilities_CQ, *score_gradients_CQ, *paired_gradients_CQ;
  float *scores_CQ, *probability_gradients_CQ, *grad_queries_EQ, *logsumexp_Q, *shift_Q;
};
// Where the gradients of keys and values add up: [S, E] each.
struct KeySums {
  KeySums(Scratch& scratch, int64_t longest, int64_t head_size);
  float *keys_SE, *values_SE;
};

// Of all shares.
int64_t forward_scratch_bytes(const AttentionShares& divided, int64_t longest, int64_t head_size);
int64_t backward_scratch_bytes(const AttentionShares& divided, int64_t longest, int64_t head_size);

}  // namespace fathom::cpu::amx
