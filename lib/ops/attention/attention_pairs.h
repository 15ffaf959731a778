// Tells whoever counts arithmetic how many pairs of positions attention computes: operators that read the documents'
// borders on the device, or mask a block, do not show it in their shapes.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <vector>

#include "footprint/attention_segments.h"

namespace fathom::ops {

// The name of the scope, whose input is a number of operations; attention's operators within it count for none.
inline constexpr const char* kAttentionScope = "fathom::attention";

class AttentionPairs {
 public:
  // Products of queries, keys, values and their gradients; backward recomputes the scores.
  static constexpr int64_t kForward = 2, kBackward = 5;

  // q_THE of documents of these lengths end to end.
  AttentionPairs(const at::Tensor& q_THE, const std::vector<int64_t>& document_lengths, int64_t window,
                 int64_t products)
      : guard_(at::RecordScope::USER_SCOPE) {
    if (!guard_.isActive()) return;
    const int64_t pairs = footprint::visible_pairs(document_lengths, window);
    const c10::IValue operations(2 * products * pairs * q_THE.size(-2) * q_THE.size(-1));
    guard_.before(kAttentionScope, c10::ArrayRef<const c10::IValue>(&operations, 1));
  }
  AttentionPairs(const AttentionPairs&) = delete;
  AttentionPairs& operator=(const AttentionPairs&) = delete;

 private:
  at::RecordFunction guard_;
};

}  // namespace fathom::ops
