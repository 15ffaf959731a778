// Fills one group of each kind at a time.
#include "footprint/update_groups.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/rounding.h"
#include "quant/dynamic.h"

namespace fathom::footprint {
namespace {

constexpr int64_t kSameUpperBits = int64_t{1} << 32;
static_assert(kUpdatedAtOnce % quant::kDynamicBlock == 0, "what is left of a group is whole blocks");

}  // namespace

int64_t elements_of(const UpdateGroup& group) {
  int64_t elements = 0;
  for (const Span& span : group) elements += round_up(span.n, quant::kDynamicBlock);
  return elements;
}

std::vector<UpdateGroup> update_groups(const std::vector<UpdatedParameter>& parameters) {
  struct Open {
    size_t group;
    int64_t room;
  };
  std::vector<UpdateGroup> groups;
  std::map<std::pair<bool, bool>, Open> open;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [elements, narrow, quantized, origin] = parameters[i];
    Open& current = open[{narrow, quantized}];
    for (int64_t first = 0; first < elements;) {
      if (current.room == 0) {
        current = {groups.size(), kUpdatedAtOnce};
        groups.emplace_back();
      }
      const int64_t n = std::min({elements - first, current.room, kSameUpperBits - (origin + first) % kSameUpperBits});
      groups[current.group].push_back({i, first, n});
      current.room -= round_up(n, quant::kDynamicBlock);
      first += n;
    }
  }
  return groups;
}

}  // namespace fathom::footprint
