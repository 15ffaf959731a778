// How attention is divided among threads: every query once, in order, and evenly.
#include "cpu/attention_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace fathom::cpu {
namespace {

using Lengths = std::vector<int64_t>;

std::vector<AttentionStretch> joined(const AttentionShares& divided) {
  std::vector<AttentionStretch> all;
  for (const auto& share : divided.shares) all.insert(all.end(), share.begin(), share.end());
  return all;
}

int64_t pairs_of(const std::vector<AttentionStretch>& share) {
  int64_t pairs = 0;
  for (const AttentionStretch& stretch : share) {
    pairs += (stretch.last_query - stretch.first_query) * (stretch.first_query + stretch.last_query) / 2;
  }
  return pairs;
}

TEST(AttentionShares, hold_every_query_of_every_head_once_and_in_order) {
  for (const Lengths& lengths : {Lengths{1}, Lengths{512, 512}, Lengths{3, 700, 1, 129, 128}, Lengths(90, 5)}) {
    for (const int64_t key_heads : {1, 3, 8}) {
      for (const int64_t threads : {1, 2, 7, 64}) {
        const AttentionShares divided = attention_shares(lengths, key_heads, threads);
        EXPECT_LE(divided.shares.size(), threads);
        auto next = joined(divided);
        auto stretch = next.begin();
        int64_t token = 0;
        for (const int64_t length : lengths) {
          for (int64_t head = 0; head < key_heads; ++head) {
            for (int64_t query = 0; query < length; query = (stretch++)->last_query) {
              ASSERT_NE(stretch, next.end());
              EXPECT_EQ(*stretch, (AttentionStretch{token, length, head, query, stretch->last_query, stretch->sums}));
              EXPECT_EQ(stretch->last_query == length || stretch->last_query % kQueriesAtOnce == 0, true);
            }
          }
          token += length;
        }
        EXPECT_EQ(stretch, next.end());
      }
    }
  }
}

TEST(AttentionShares, are_whole_heads_where_these_divide_evenly) {
  const AttentionShares divided = attention_shares({512}, 12, 2);
  ASSERT_EQ(divided.shares.size(), 2);
  for (const auto& share : divided.shares) {
    EXPECT_EQ(share.size(), 6);
    EXPECT_TRUE(std::all_of(share.begin(), share.end(), [](const AttentionStretch& each) { return each.is_whole(); }));
  }
  EXPECT_EQ(divided.sums, 2);
}

TEST(AttentionShares, differ_by_a_block_where_they_do_not) {
  for (const auto& [lengths, key_heads, threads] :
       {std::tuple{Lengths{4096}, 3, 2}, {Lengths{2048}, 1, 4}, {Lengths{900, 4096, 17}, 5, 8}}) {
    const AttentionShares divided = attention_shares(lengths, key_heads, threads);
    ASSERT_EQ(divided.shares.size(), threads);
    const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    const int64_t even = pairs_of(joined(divided)) / threads;
    for (const auto& share : divided.shares) EXPECT_NEAR(pairs_of(share), even, 1.5 * kQueriesAtOnce * longest);
  }
}

// A buffer that another thread will read is not used again.
TEST(AttentionShares, keep_the_sums_of_heads_that_are_cut) {
  for (const int64_t threads : {2, 3, 5, 16}) {
    const AttentionShares divided = attention_shares({1000, 300, 2000}, 3, threads);
    std::map<int64_t, size_t> owners;
    int64_t most = 0;
    for (size_t share = 0; share < divided.shares.size(); ++share) {
      const auto& stretches = divided.shares[share];
      for (size_t i = 0; i < stretches.size(); ++i) {
        const AttentionStretch& stretch = stretches[i];
        EXPECT_EQ(owners.try_emplace(stretch.sums, share).first->second, share);
        most = std::max(most, stretch.sums);
        const bool used_again = std::any_of(stretches.begin() + static_cast<int64_t>(i) + 1, stretches.end(),
                                            [&](const AttentionStretch& other) { return other.sums == stretch.sums; });
        EXPECT_FALSE(used_again && !stretch.is_whole());
      }
    }
    EXPECT_EQ(most + 1, divided.sums);
    EXPECT_LE(divided.sums, 2 * threads);
  }
}

}  // namespace
}  // namespace fathom::cpu
