// Sizes of the blocks that attention in AMX's tiles works on.
#include "cpu/amx_scratch.h"

#include <algorithm>

#include "base/rounding.h"
#include "cpu/amx_tiles.h"

namespace fathom::cpu::amx {

Sides::Sides(int64_t longest, int64_t head_size, int64_t keys_at_once)
    : length(round_up(longest, kSide)),
      width(round_up(head_size, kSide)),
      queries(std::min(length, kQueriesAtOnce)),
      keys(std::min(length, keys_at_once)) {}

ForwardScratch::ForwardScratch(Scratch& scratch, int64_t longest, int64_t head_size)
    : sides(longest, head_size, kForwardKeys),
      keys_ES(scratch.take<uint16_t>(sides.width * sides.length)),
      values_SE(scratch.take<uint16_t>(sides.length * sides.width)),
      strip_E(scratch.take<uint16_t>(kSide * sides.width)),
      queries_QE(scratch.take<uint16_t>(sides.queries * sides.width)),
      probabilities_QC(scratch.take<uint16_t>(sides.queries * sides.keys)),
      scores_QC(scratch.take<float>(sides.queries * sides.keys)),
      out_QE(scratch.take<float>(sides.queries * sides.width)) {}

BackwardScratch::BackwardScratch(Scratch& scratch, int64_t longest, int64_t head_size)
    : sides(longest, head_size, kBackwardKeys) {
  for (uint16_t** whole : {&keys_SE, &values_SE, &keys_ES}) *whole = scratch.take<uint16_t>(sides.length * sides.width);
  for (uint16_t** block : {&rows_QE, &queries_EQ, &queries_QE, &gradient_EQ, &gradient_QE}) {
    *block = scratch.take<uint16_t>(sides.queries * sides.width);
  }
  for (uint16_t** block : {&probabilities_CQ, &score_gradients_CQ, &paired_gradients_CQ}) {
    *block = scratch.take<uint16_t>(sides.keys * sides.queries);
  }
  for (float** block : {&scores_CQ, &probability_gradients_CQ}) {
    *block = scratch.take<float>(sides.keys * sides.queries);
  }
  grad_queries_EQ = scratch.take<float>(sides.width * sides.queries);
  logsumexp_Q = scratch.take<float>(sides.queries);
  shift_Q = scratch.take<float>(sides.queries);
}

KeySums::KeySums(Scratch& scratch, int64_t longest, int64_t head_size) {
  const int64_t count = round_up(longest, kSide) * round_up(head_size, kSide);
  keys_SE = scratch.take<float>(count);
  values_SE = scratch.take<float>(count);
}

int64_t forward_scratch_bytes(const AttentionShares& divided, int64_t longest, int64_t head_size) {
  Scratch counted;
  const ForwardScratch each(counted, longest, head_size);
  return static_cast<int64_t>(divided.shares.size()) * counted.bytes();
}

int64_t backward_scratch_bytes(const AttentionShares& divided, int64_t longest, int64_t head_size) {
  Scratch counted, sums;
  const BackwardScratch each(counted, longest, head_size);
  const KeySums each_sum(sums, longest, head_size);
  return static_cast<int64_t>(divided.shares.size()) * counted.bytes() + divided.sums * sums.bytes();
}

}  // namespace fathom::cpu::amx
