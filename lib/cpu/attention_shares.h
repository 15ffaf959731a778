// How the queries of causal attention are divided among threads, so that all finish together.
#pragma once

#include <cstdint>
#include <vector>

namespace fathom::cpu {

// Queries that are computed at once.
inline constexpr int64_t kQueriesAtOnce = 128;

// Queries of one document, of every query head that reads one key head.
struct AttentionStretch {
  int64_t first_token = 0, length = 0;  // of the document
  int64_t key_head = 0;
  int64_t first_query = 0, last_query = 0;  // within the document, [first, last)
  int64_t sums = 0;                         // the buffer where the gradients of keys and values add up
  bool is_whole() const { return first_query == 0 && last_query == length; }
  bool ends_document() const { return last_query == length; }
  bool operator==(const AttentionStretch&) const = default;
};

// What each thread computes, in order. Where a share ends within a document, the next goes on there.
struct AttentionShares {
  std::vector<std::vector<AttentionStretch>> shares;  // none is empty
  int64_t sums = 0;                                   // buffers in all: two for a thread at most
};

// Of documents end to end, in their order. Depends on nothing but its arguments.
AttentionShares attention_shares(const std::vector<int64_t>& document_lengths, int64_t key_heads, int64_t threads);

}  // namespace fathom::cpu
