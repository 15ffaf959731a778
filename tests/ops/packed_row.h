// Documents of a packed row, by their lengths.
#pragma once

#include <ATen/ATen.h>

#include <numeric>
#include <vector>

#include "ops/documents.h"

namespace fathom::ops {

inline int64_t sum(const std::vector<int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

inline Documents documents_of(const std::vector<int64_t>& lengths) {
  Documents documents;
  documents.lengths = lengths;
  std::vector<at::Tensor> positions;
  for (const int64_t length : lengths) positions.push_back(at::arange(length, at::kInt));
  documents.positions_T = at::cat(positions);
  return documents;
}

}  // namespace fathom::ops
