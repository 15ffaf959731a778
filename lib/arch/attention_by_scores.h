// Which attention makes its scores, a few queries at a time, because no fused kernel computes it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "arch/architecture.h"

namespace fathom::arch {

// With a bias by distance, with dropout of probabilities while the model is trained, or with capped scores. A row is
// one text then: there are no documents end to end.
inline bool attends_by_scores(const Architecture& architecture, bool training) {
  return architecture.relative.has_value() || (training && architecture.dropout > 0) ||
         architecture.attention().softcap > 0;
}

// Scores that are there at a time: 16 MiB in FP32.
inline constexpr int64_t kScoresAtOnce = int64_t{1} << 22;

// Of so many groups, each with so many queries and keys.
inline int64_t queries_at_once(int64_t groups, int64_t queries, int64_t keys) {
  return std::clamp<int64_t>(kScoresAtOnce / (groups * keys), 1, queries);
}

}  // namespace fathom::arch
