// How causal attention over documents, under a sliding window, falls apart into calls of a kernel that knows neither.
#pragma once

#include <cstdint>
#include <vector>

namespace fathom::footprint {

// One call: `queries` from first_query on see keys from first_key on. A causal segment begins both at its document's
// first token and each query sees what is not after it. In a windowed one the first query is the last to see first_key:
// query i sees keys i to i + window - 1 of the segment.
struct AttentionSegment {
  int64_t first_query = 0, queries = 0;
  int64_t first_key = 0, keys = 0;
  bool windowed = false;
  bool operator==(const AttentionSegment&) const = default;
};

// Of documents end to end, in their order. window: positions that a query sees, its own included; 0: all before it. The
// queries that the window does not limit are one causal segment, the others come in blocks, so that what is computed
// and masked grows with length times window.
std::vector<AttentionSegment> attention_segments(const std::vector<int64_t>& document_lengths, int64_t window);

// Pairs of a query and a key that it sees.
int64_t visible_pairs(const std::vector<int64_t>& document_lengths, int64_t window);

}  // namespace fathom::footprint
