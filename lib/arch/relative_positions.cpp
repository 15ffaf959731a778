// T5's buckets.
#include "arch/relative_positions.h"

#include <algorithm>
#include <cmath>

namespace fathom::arch {

std::vector<int64_t> distance_buckets(const RelativePositions& positions, int64_t length, bool both_ways) {
  const int64_t buckets = both_ways ? positions.buckets / 2 : positions.buckets, single = buckets / 2;
  const auto rest = static_cast<float>(buckets - single);
  const auto decades =
      static_cast<float>(std::log(static_cast<double>(positions.max_distance) / static_cast<double>(single)));
  const auto of_magnitude = [&](int64_t distance) {
    if (distance < single) return distance;
    const float ratio = static_cast<float>(distance) / static_cast<float>(single);
    return std::min(buckets - 1, single + static_cast<int64_t>(std::log(ratio) / decades * rest));
  };
  std::vector<int64_t> result;
  result.reserve(static_cast<size_t>(2 * length - 1));
  for (int64_t distance = 1 - length; distance < length; ++distance) {
    const int64_t behind = std::max<int64_t>(0, distance);
    result.push_back(both_ways ? of_magnitude(std::abs(distance)) + (behind > 0 ? buckets : 0)
                               : of_magnitude(behind > 0 ? 0 : -distance));
  }
  return result;
}

}  // namespace fathom::arch
