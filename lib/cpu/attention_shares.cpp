// Cuts the sequence of all blocks of queries into stretches of equal arithmetic.
#include "cpu/attention_shares.h"

#include <algorithm>

namespace fathom::cpu {
namespace {

// Pairs of a query and a key that a block computes.
int64_t pairs_of(int64_t first_query, int64_t last_query) { return (last_query - first_query) * last_query; }

int64_t pairs_of_document(int64_t length) {
  int64_t pairs = 0;
  for (int64_t query = 0; query < length; query += kQueriesAtOnce) {
    pairs += pairs_of(query, std::min(length, query + kQueriesAtOnce));
  }
  return pairs;
}

// A stretch that does not hold all queries keeps its sums for those who have the others.
void number_sums(AttentionShares& divided) {
  for (std::vector<AttentionStretch>& share : divided.shares) {
    const bool keeps_first = share.size() > 1 && !share.front().is_whole();
    for (AttentionStretch& stretch : share) {
      stretch.sums = divided.sums + (keeps_first && &stretch != &share.front() ? 1 : 0);
    }
    divided.sums = share.back().sums + 1;
  }
}

}  // namespace

AttentionShares attention_shares(const std::vector<int64_t>& document_lengths, int64_t key_heads, int64_t threads) {
  int64_t all = 0;
  for (const int64_t length : document_lengths) all += key_heads * pairs_of_document(length);
  AttentionShares divided;
  int64_t done = 0, last_share = -1, first_token = 0;
  for (const int64_t length : document_lengths) {
    for (int64_t key_head = 0; key_head < key_heads; ++key_head) {
      for (int64_t query = 0; query < length; query += kQueriesAtOnce) {
        const int64_t end = std::min(length, query + kQueriesAtOnce), pairs = pairs_of(query, end);
        // The share in whose part of all pairs the middle of the block lies.
        const int64_t share = std::min(threads - 1, (done + pairs / 2) * threads / all);
        done += pairs;
        if (share != last_share) divided.shares.emplace_back();
        if (share != last_share || query == 0) {
          divided.shares.back().push_back({first_token, length, key_head, query, end, 0});
        }
        divided.shares.back().back().last_query = end;
        last_share = share;
      }
    }
    first_token += length;
  }
  number_sums(divided);
  return divided;
}

}  // namespace fathom::cpu
