// What the gated delta rule keeps and takes (ops/delta/gated_delta.h).
#pragma once

#include <cstdint>

#include "footprint/footprint.h"

namespace fathom::footprint {

// Tokens of a text that are taken at once.
inline constexpr int64_t kDeltaChunk = 64;

struct DeltaSizes {
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  int64_t chunks = 0;   // of all texts; on a GPU of rows of the batch
  int64_t texts = 0;    // likewise
  bool ragged = false;  // several, with other tokens than those of whole chunks
  int64_t keys() const { return key_heads * key_dim; }
  int64_t values() const { return value_heads * value_dim; }
  int64_t mixed() const { return 2 * keys() + values(); }
};
Footprint delta_footprint(const StepSizes& step, const DeltaSizes& sizes);

}  // namespace fathom::footprint
