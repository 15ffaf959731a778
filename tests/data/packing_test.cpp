// Bins: every document in one, none too long, few of them; and the batches that they make.
#include "data/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/split_mix.h"
#include "data/batch.h"

namespace fathom::data {
namespace {

using ::testing::ElementsAre;

Dataset dataset_of(const std::vector<int64_t>& lengths) {
  std::vector<Example> examples;
  for (const int64_t length : lengths) {
    Example& example = examples.emplace_back();
    for (int64_t i = 0; i < length; ++i) example.ids.push_back(static_cast<int32_t>(10 * examples.size() + i));
    example.labels = example.ids;
  }
  return Dataset(examples);
}

std::vector<std::vector<int64_t>> all_of(const Bins& bins) {
  std::vector<std::vector<int64_t>> all;
  for (int64_t bin = 0; bin < bins.size(); ++bin) all.emplace_back(bins.rows(bin).begin(), bins.rows(bin).end());
  return all;
}

TEST(Pack, PutsTheLongestFirstIntoTheFullestBinWithRoom) {
  // By hand: 8 | 7 | 5 with 4 (room 1) | 3 into the 7 (room 0) | 2 into the 8 (room 0) | 1 beside 5 and 4.
  EXPECT_EQ(all_of(pack(dataset_of({4, 8, 1, 5, 2, 7, 3}), 10)),
            (std::vector<std::vector<int64_t>>{{0, 2, 3}, {1, 4}, {5, 6}}));
  EXPECT_EQ(pack(Dataset(), 10).size(), 0);
  EXPECT_THROW(pack(dataset_of({4, 11}), 10), Error);
}

TEST(Pack, HoldsEachDocumentOnceAndNoBinIsTooLong) {
  SplitMix64 random(3);
  for (int round = 0; round < 50; ++round) {
    const int64_t max_length = 20 + static_cast<int64_t>(random.below(500));
    std::vector<int64_t> lengths(1 + random.below(400));
    for (int64_t& length : lengths) length = 1 + static_cast<int64_t>(random.below(max_length));
    const Dataset dataset = dataset_of(lengths);
    const Bins bins = pack(dataset, max_length);
    std::vector<int64_t> rows, firsts, tokens_of_bin;
    for (const std::vector<int64_t>& bin : all_of(bins)) {
      EXPECT_TRUE(std::is_sorted(bin.begin(), bin.end()));
      int64_t tokens = 0;
      for (const int64_t row : bin) tokens += lengths[static_cast<size_t>(row)];
      EXPECT_LE(tokens, max_length);
      rows.insert(rows.end(), bin.begin(), bin.end());
      firsts.push_back(bin.front());
      tokens_of_bin.push_back(tokens);
    }
    EXPECT_TRUE(std::is_sorted(firsts.begin(), firsts.end()));
    std::sort(rows.begin(), rows.end());
    std::vector<int64_t> every(lengths.size());
    std::iota(every.begin(), every.end(), 0);
    EXPECT_EQ(rows, every);
    EXPECT_EQ(all_of(bins), all_of(pack(dataset, max_length)));
    // No two bins could be one.
    std::sort(tokens_of_bin.begin(), tokens_of_bin.end());
    if (tokens_of_bin.size() > 1) {
      EXPECT_GT(tokens_of_bin[0] + tokens_of_bin[1], max_length);
    }
  }
}

TEST(PackedBatch, LaysDocumentsEndToEndWithoutTargetsAcrossBorders) {
  const Dataset dataset({{{5, 6, 7}, {5, 6, 7}}, {{8}, {8}}, {{1, 9, 2}, {-100, -100, 2}}});
  const Batch batch = make_packed_batch(dataset, {2, 1, 0});
  EXPECT_EQ(batch.rows, 1);
  EXPECT_EQ(batch.length, 7);
  EXPECT_THAT(batch.document_lengths, ElementsAre(3, 1, 3));
  EXPECT_THAT(batch.ids, ElementsAre(1, 9, 2, 8, 5, 6, 7));
  EXPECT_THAT(batch.targets, ElementsAre(-100, 2, -100, -100, 6, 7, -100));
  EXPECT_EQ(batch.target_count, 3);
  EXPECT_EQ(batch.token_count, 7);
}

}  // namespace
}  // namespace fathom::data
