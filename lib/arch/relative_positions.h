// Buckets of distances between queries and keys (Raffel et al. 2020, arXiv 1910.10683).
#pragma once

#include <cstdint>
#include <vector>

#include "arch/architecture.h"

namespace fathom::arch {

// The bucket of each distance from -(length - 1), a key before its query, to length - 1: [2 * length - 1]. Small
// distances have one each, larger ones share more and more. both_ways: half of the buckets are for keys behind their
// queries; else those have the bucket of distance 0. Computed in FP32, as transformers does.
std::vector<int64_t> distance_buckets(const RelativePositions& positions, int64_t length, bool both_ways);

}  // namespace fathom::arch
