// Which parameters are updated together where the update is made of LibTorch's operators: a few large groups, because
// there each operator costs the launch of a kernel, whatever its size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fathom::footprint {

// Elements of a group, with what fills up short blocks: an FP32 copy takes 16 MiB.
inline constexpr int64_t kUpdatedAtOnce = int64_t{1} << 22;

struct UpdatedParameter {
  int64_t elements = 0;
  bool narrow = false;     // stored in 16 bits
  bool quantized = false;  // its moments are codes
  int64_t origin = 0;  // where it is a share: the whole's element that it begins with, the first of a block of codes
};

// Elements [first, first + n) of a parameter, of which `first` begins a block of codes. All their numbers have the same
// upper 32 bits, as draws in one go need it (stochastic_rounding.h).
struct Span {
  size_t parameter = 0;
  int64_t first = 0, n = 0;
  bool operator==(const Span&) const = default;
};
using UpdateGroup = std::vector<Span>;

// Of all its spans, each filled up to whole blocks.
int64_t elements_of(const UpdateGroup& group);

// Groups of parameters of one kind, in their order; what does not fit into a group goes on in the next.
std::vector<UpdateGroup> update_groups(const std::vector<UpdatedParameter>& parameters);

}  // namespace fathom::footprint
