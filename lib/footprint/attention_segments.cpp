// Segments of attention, and how many pairs of positions they let see each other.
#include "footprint/attention_segments.h"

#include <algorithm>

#include "base/bytes.h"

namespace fathom::footprint {
namespace {

// Queries of a windowed segment: enough to keep a product busy, few beside the keys that all but one of them see.
constexpr int64_t kFewestQueries = 32, kMostQueries = 256;

}  // namespace

std::vector<AttentionSegment> attention_segments(const std::vector<int64_t>& document_lengths, int64_t window) {
  std::vector<AttentionSegment> segments;
  int64_t start = 0;
  for (const int64_t length : document_lengths) {
    const int64_t unlimited = window > 0 ? std::min(length, window) : length;
    segments.push_back({start, unlimited, start, unlimited, false});
    const int64_t block = std::clamp(window, kFewestQueries, kMostQueries);
    for (int64_t query = unlimited; query < length; query += block) {
      const int64_t queries = std::min(block, length - query), before = window - 1;
      segments.push_back({start + query, queries, start + query - before, before + queries, true});
    }
    start += length;
  }
  return segments;
}

int64_t visible_pairs(const std::vector<int64_t>& document_lengths, int64_t window) {
  constexpr const char* kWhat = "pairs of positions that attention sees";
  int64_t pairs = 0;
  for (const int64_t length : document_lengths) {
    const int64_t unlimited = window > 0 ? std::min(length, window) : length;
    const int64_t triangle = checked_multiply(unlimited, unlimited + 1, kWhat) / 2;
    pairs =
        checked_add(pairs, checked_add(triangle, checked_multiply(length - unlimited, window, kWhat), kWhat), kWhat);
  }
  return pairs;
}

}  // namespace fathom::footprint
