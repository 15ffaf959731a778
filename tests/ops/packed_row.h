// Documents of a packed row, by their lengths.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
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
  documents.longest = *std::max_element(lengths.begin(), lengths.end());
  std::vector<int32_t> offsets = {0};
  std::vector<at::Tensor> positions;
  for (const int64_t length : lengths) {
    offsets.push_back(offsets.back() + static_cast<int32_t>(length));
    positions.push_back(at::arange(length, at::kInt));
  }
  documents.offsets = at::tensor(offsets, at::kInt);
  documents.positions_T = at::cat(positions);
  return documents;
}

}  // namespace fathom::ops
