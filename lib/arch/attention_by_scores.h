// Which attention makes its scores, a few queries at a time, because no fused kernel computes it.
#pragma once

#include "arch/architecture.h"

namespace fathom::arch {

// With a bias by distance, with dropout of probabilities while the model is trained, or with capped scores. A row is
// one text then: there are no documents end to end.
inline bool attends_by_scores(const Architecture& architecture, bool training) {
  return architecture.relative.has_value() || (training && architecture.dropout > 0) ||
         architecture.layers.front().attention.softcap > 0;
}

}  // namespace fathom::arch
