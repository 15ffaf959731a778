// What attention with a bias of its scores keeps and takes (ops/attention/biased_attention.h).
#pragma once

#include <cstdint>

#include "footprint/footprint.h"

namespace fathom::footprint {

struct BiasedAttentionSizes {
  int64_t rows = 1, heads = 0, key_heads = 0, head_size = 0;
  int64_t queries = 0, keys = 0;  // of a row
  bool by_distance = false;       // there is a bias by the distance of key and query, for which queries are reversed
  bool trains_bias = false;       // this one
  bool dropout = false;           // of probabilities
  bool capped = false;            // scores are (ops/softcap.h)
  bool differentiated = true;     // queries, keys or values need gradients
};
// step.tokens: queries of all rows.
Footprint biased_attention_footprint(const StepSizes& step, const BiasedAttentionSizes& sizes);

}  // namespace fathom::footprint
