// Copies of a model, each of which so many processes share (hybrid sharding: Zhao et al. 2023, arXiv
// 2304.11277, 3.2.2).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "dist/group.h"
#include "ledger/ledger.h"

namespace fathom::dist {

// Neighbours share a copy, as those of one machine are: rank r has share r % shards of copy r / shards.
class Copies {
 public:
  // Every rank of `all` makes them. shards: of a copy; divides the ranks.
  Copies(Group& all, int64_t shards, ledger::Ledger& ledger);
  ~Copies();
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  // Of this rank's copy.
  Group& sharers() const { return own_ ? *own_ : all_; }
  // So many of the first `ranks` of all share this copy.
  int64_t sharers_among(int64_t ranks) const;

  // Adds up each over the copies, in their order and in place, while the caller goes on. What was begun before ends
  // first. Every rank calls it, with the same share of its copy as the others of its place. Where it is not the last
  // time of a step, nothing is summed and the memory taken all the same, so that micro-batches of one shape ask for the
  // same.
  void begin_sums(const std::vector<at::Tensor>& tensors, bool is_last);
  void end_sums();

 private:
  Group& all_;
  ledger::Ledger& ledger_;
  std::unique_ptr<Group> own_, replicas_;  // null: there is one copy
  std::vector<Group::Sum> sums_;           // that are on their way, or would be
  bool are_summed_ = false;
};

}  // namespace fathom::dist
