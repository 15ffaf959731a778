// Two groups for each rank: that of its copy, and that of its share.
#include "dist/copies.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>

namespace fathom::dist {

Copies::Copies(Group& all, int64_t shards, ledger::Ledger& ledger) : all_(all), ledger_(ledger) {
  TORCH_INTERNAL_ASSERT(shards > 0 && all.size() % shards == 0, shards, " shares for ", all.size(), " ranks");
  if (shards == all.size()) return;
  std::vector<int64_t> own, replicas;
  for (int64_t rank = 0; rank < all.size(); ++rank) {
    if (rank / shards == all.rank() / shards) own.push_back(rank);
    if (rank % shards == all.rank() % shards) replicas.push_back(rank);
  }
  own_ = all.part(own);
  replicas_ = all.part(replicas);
}

Copies::~Copies() = default;

int64_t Copies::sharers_among(int64_t ranks) const {
  const int64_t shards = sharers().size();
  return std::clamp<int64_t>(ranks - all_.rank() / shards * shards, 0, shards);
}

void Copies::begin_sums(const std::vector<at::Tensor>& tensors, bool is_last) {
  end_sums();
  if (!replicas_) return;
  are_summed_ = is_last;
  for (const at::Tensor& tensor : tensors) {
    Group::Sum& sum = sums_.emplace_back();
    sum.tensor = tensor;
    sum.staging = at::empty({replicas_->staging_numbers(tensor.numel())}, tensor.options());
    ledger_.claim(sum.staging, memory::Component::kFunctionality, "gradients of another copy");
    if (are_summed_) replicas_->begin(sum);
  }
}

void Copies::end_sums() {
  for (Group::Sum& sum : sums_) {
    if (are_summed_) replicas_->end(sum);
  }
  sums_.clear();
}

}  // namespace fathom::dist
