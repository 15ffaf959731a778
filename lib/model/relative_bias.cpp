// A row of the table for each distance, and negative infinity where a decoder must not look.
#include "model/relative_bias.h"

#include <ATen/ATen.h>

#include <limits>
#include <utility>

#include "arch/relative_positions.h"

namespace fathom::model {

RelativeBias::RelativeBias(const arch::RelativePositions& positions, at::Tensor table_RH, bool both_ways,
                           ledger::Ledger* ledger)
    : positions_(positions), table_RH_(std::move(table_RH)), both_ways_(both_ways), ledger_(ledger) {}

void RelativeBias::reserve(int64_t length) {
  if (length <= length_) return;
  length_ = length;
  std::vector<int64_t> buckets = arch::distance_buckets(positions_, length, both_ways_);
  buckets_N_ = at::from_blob(buckets.data(), {2 * length - 1}, at::kLong)
                   .to(table_RH_.device(), at::kLong,
                       /*non_blocking=*/false, /*copy=*/true);
  if (ledger_ != nullptr) {
    ledger_->claim(buckets_N_, memory::Component::kFunctionality, "buckets of relative positions");
  }
}

at::Tensor RelativeBias::by_distance(int64_t queries, int64_t keys) {
  reserve(keys);
  // Query i stands at keys - queries + i: the farthest key lies keys - 1 before the last query.
  const int64_t first = length_ - keys, behind = queries - 1;
  const int64_t seen = both_ways_ ? keys + behind : keys;
  // An embedding: its gradient is summed in FP32, and on a GPU in one order.
  const at::Tensor by_distance_HN =
      at::embedding(table_RH_.to(at::kFloat), buckets_N_.narrow(0, first, seen)).t().contiguous();
  if (both_ways_ || behind == 0) return by_distance_HN;
  return at::constant_pad_nd(by_distance_HN, {0, behind}, -std::numeric_limits<double>::infinity());
}

}  // namespace fathom::model
