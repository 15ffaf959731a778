// Where the bytes of a rewritten text came from.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace fathom::tokenizer {

class OffsetMap {
 public:
  // From `to` of the rewritten text on, up to where the next call says otherwise, bytes were copied one by one from
  // `from` on, or stand for something that began at `from`. Both are called in ascending order.
  void copied(size_t to, size_t from) { stretches_.push_back({to, from, true}); }
  void rewritten(size_t to, size_t from) { stretches_.push_back({to, from, false}); }

  // An empty map stands for a text that was not rewritten.
  size_t origin(size_t at) const {
    auto next = std::upper_bound(stretches_.begin(), stretches_.end(), at,
                                 [](size_t offset, const Stretch& stretch) { return offset < stretch.to; });
    if (next == stretches_.begin()) return at;
    const Stretch& stretch = *--next;
    return stretch.copied ? stretch.from + (at - stretch.to) : stretch.from;
  }

 private:
  struct Stretch {
    size_t to, from;
    bool copied;
  };
  std::vector<Stretch> stretches_;
};

}  // namespace fathom::tokenizer
