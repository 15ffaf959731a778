// How many rows of a tied embedding's gradient are made at a time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fathom::footprint {

// Small beside the gradient of a large vocabulary; smaller ones would cost launches.
inline constexpr int64_t kTiedPartBytes = int64_t{64} << 20;

inline int64_t tied_part_rows(int64_t vocabulary, int64_t row_bytes) {
  return std::clamp<int64_t>(kTiedPartBytes / row_bytes, 1, vocabulary);
}

}  // namespace fathom::footprint
