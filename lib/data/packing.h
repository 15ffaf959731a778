// Documents into bins of at most max_length tokens, so that few tokens of a batch are padding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace fathom::data {

class Bins {
 public:
  int64_t size() const { return static_cast<int64_t>(starts_.size()) - 1; }
  // The rows of the dataset that lie in a bin, ascending.
  std::span<const int64_t> rows(int64_t bin) const;

 private:
  friend Bins pack(const Dataset& dataset, int64_t max_length);
  std::vector<int64_t> rows_;          // of all bins, one behind the other
  std::vector<int64_t> starts_ = {0};  // of each bin in rows_, and their end
};

// Best fit, decreasing (Johnson, "Near-optimal bin packing algorithms", 1973), as TRL's `bfd`: each document, the
// longest first, into the fullest bin that still has room. Bins in the order of their first rows. Every row is in one
// bin. Throws Error for a document longer than max_length.
Bins pack(const Dataset& dataset, int64_t max_length);

}  // namespace fathom::data
