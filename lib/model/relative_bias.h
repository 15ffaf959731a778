// The bias of a stack's scores by the distance of key and query, as attention takes it
// (ops/attention/biased_attention.h).
#pragma once

#include <ATen/core/Tensor.h>

#include "arch/architecture.h"
#include "ledger/ledger.h"

namespace fathom::model {

class RelativeBias {
 public:
  // table_RH: a number for each bucket and head. both_ways: an encoder's; a decoder's hides keys behind their queries.
  RelativeBias(const arch::RelativePositions& positions, at::Tensor table_RH, bool both_ways, ledger::Ledger* ledger);

  // Makes the buckets for sequences of `length` tokens now.
  void reserve(int64_t length);
  // Of the last `queries` positions of `keys`: [H, queries + keys - 1] in FP32.
  at::Tensor by_distance(int64_t queries, int64_t keys);

 private:
  arch::RelativePositions positions_;
  at::Tensor table_RH_;
  bool both_ways_;
  ledger::Ledger* ledger_;
  at::Tensor buckets_N_;  // int64, of all distances between length_ tokens
  int64_t length_ = 0;
};

}  // namespace fathom::model
