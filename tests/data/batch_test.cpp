// Padding by position, targets shifted by one, and an order that depends on (seed, epoch) alone.
#include "data/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/split_mix.h"

namespace fathom::data {
namespace {

using ::testing::ElementsAre;

TEST(Batch, PadsOnTheRightAndShiftsTargets) {
  const Dataset dataset({{{1, 5, 6, 2}, {-100, -100, 6, 2}}, {{1, 2}, {1, 2}}});
  const Batch batch = make_batch(dataset, {1, 0}, 2);  // padded with the id of EOS, which must not become a target
  EXPECT_EQ(batch.rows, 2);
  EXPECT_EQ(batch.length, 4);
  EXPECT_THAT(batch.ids, ElementsAre(1, 2, 2, 2, 1, 5, 6, 2));
  EXPECT_THAT(batch.targets, ElementsAre(2, -100, -100, -100, -100, 6, 2, -100));
  EXPECT_EQ(batch.target_count, 3);
  EXPECT_EQ(batch.token_count, 6);
  EXPECT_THROW(make_batch(dataset, {2}, 0), std::out_of_range);
}

TEST(Batch, RoundsTheLengthUp) {
  const Dataset dataset({{{1, 5, 6}, {1, 5, 6}}});
  EXPECT_EQ(make_batch(dataset, {0}, 0, 8).length, 8);
  EXPECT_EQ(make_batch(dataset, {0}, 0, 3).length, 3);
  EXPECT_THAT(make_batch(dataset, {0}, 9, 4).ids, ElementsAre(1, 5, 6, 9));
  EXPECT_EQ(make_batch(dataset, {0}, 0, 4).token_count, 3);
}

// Two sources, of three tokens and of one, with targets of two and of three, which a decoder reads behind token 9.
Dataset pairs() {
  Dataset dataset({{{5, 6, 1, 7, 1}, {-100, -100, -100, 7, 1}}, {{1, 8, 4, 1}, {-100, 8, 4, 1}}});
  dataset.set_decoder_start(9);
  return dataset;
}

TEST(PairBatch, HasSourcesAndTargetsPaddedApart) {
  const Batch batch = make_batch(pairs(), {1, 0}, 0);
  EXPECT_EQ(batch.rows, 2);
  EXPECT_EQ(batch.length, 3);
  EXPECT_EQ(batch.source_length, 3);
  EXPECT_THAT(batch.source_ids, ElementsAre(1, 0, 0, 5, 6, 1));
  EXPECT_THAT(batch.source_lengths, ElementsAre(1, 3));
  EXPECT_THAT(batch.targets, ElementsAre(8, 4, 1, 7, 1, -100)) << "as they are: the decoder's ids are shifted";
  EXPECT_THAT(batch.ids, ElementsAre(9, 8, 4, 9, 7, 0));
  EXPECT_EQ(batch.target_count, 5);
  EXPECT_EQ(batch.token_count, 9);
  EXPECT_TRUE(batch.document_lengths.empty());
}

TEST(PairBatch, RoundsBothLengthsUp) {
  const Batch batch = make_batch(pairs(), {0}, 3, 4);
  EXPECT_EQ(batch.length, 4);
  EXPECT_EQ(batch.source_length, 4);
  EXPECT_THAT(batch.ids, ElementsAre(9, 7, 3, 3));
  EXPECT_THAT(batch.targets, ElementsAre(7, 1, -100, -100));
  EXPECT_THAT(batch.source_ids, ElementsAre(5, 6, 1, 3));
  EXPECT_THAT(batch.source_lengths, ElementsAre(3));
  EXPECT_EQ(batch.target_count, 2);
  EXPECT_EQ(batch.token_count, 5);
}

TEST(PairBatch, OfOneTokenReadsNoMoreThanTheStart) {
  const Example shortest{{5, 7}, {-100, 7}};
  Dataset dataset({shortest});
  dataset.set_decoder_start(0);
  const Batch batch = make_batch(dataset, {0}, 2);
  EXPECT_THAT(batch.ids, ElementsAre(0));
  EXPECT_THAT(batch.targets, ElementsAre(7));
  EXPECT_THAT(batch.source_ids, ElementsAre(5));
}

TEST(PairBatch, IsOfAnotherShapeWithAnotherSource) {
  Dataset dataset({{{5, 7, 1}, {-100, 7, 1}}, {{5, 6, 7, 1}, {-100, -100, 7, 1}}});
  dataset.set_decoder_start(0);
  const Batch one = make_batch(dataset, {0}, 0), other = make_batch(dataset, {1}, 0);
  EXPECT_EQ(one.length, other.length);
  EXPECT_EQ(one.target_count, other.target_count);
  EXPECT_NE(shape_hash(one), shape_hash(other));
  EXPECT_EQ(shape_hash(one), shape_hash(make_batch(dataset, {0}, 2)));
}

TEST(GroupedByLength, SortsMegaBatchesAndPutsTheLongestFirst) {
  std::vector<int32_t> lengths;
  SplitMix64 random(8);
  for (int i = 0; i < 1000; ++i) lengths.push_back(static_cast<int32_t>(1 + random.below(500)));
  const Arrange arrange = grouped_by_length(lengths, 4);
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<int64_t> shuffled = order;
  for (size_t last = shuffled.size(); last > 1; --last) std::swap(shuffled[last - 1], shuffled[random.below(last)]);
  std::vector<int64_t> grouped = shuffled;
  arrange(grouped);
  const auto length_of = [&](int64_t row) { return lengths[static_cast<size_t>(row)]; };
  EXPECT_EQ(length_of(grouped[0]), *std::max_element(lengths.begin(), lengths.end()));
  // 1000 examples in steps of 4: mega-batches of 50 steps, each sorted but for where the longest was.
  for (size_t start = 0; start < 1000; start += 200) {
    int ascents = 0;
    for (size_t i = start + 1; i < start + 200; ++i) ascents += length_of(grouped[i]) > length_of(grouped[i - 1]);
    EXPECT_LE(ascents, 1);
  }
  std::sort(grouped.begin(), grouped.end());
  EXPECT_EQ(grouped, order) << "a permutation";
  std::vector<int64_t> few = {2, 0, 1};
  grouped_by_length({5, 9, 7}, 16)(few);
  EXPECT_THAT(few, ElementsAre(1, 2, 0));
}

std::vector<int64_t> epoch_order(Sampler& sampler) {
  std::vector<int64_t> rows;
  const int64_t epoch = sampler.position().epoch;
  while (sampler.position().epoch == epoch) {
    for (int64_t row : sampler.next()) rows.push_back(row);
  }
  return rows;
}

TEST(Sampler, HandsOutEachExampleOncePerEpoch) {
  Sampler sampler(10, 4, 42, true);
  EXPECT_EQ(sampler.batches_per_epoch(), 3);
  std::vector<std::vector<int64_t>> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(sampler.position(), (Position{epoch, 0}));
    std::vector<int64_t> rows = epoch_order(sampler);
    orders.push_back(rows);
    std::sort(rows.begin(), rows.end());
    EXPECT_THAT(rows, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

TEST(Sampler, OrderIsFixedForever) {
  // From a separate implementation in Python; another order would break the resuming of old runs.
  Sampler sampler(10, 10, 42, true);
  EXPECT_THAT(sampler.next(), ElementsAre(6, 1, 8, 5, 2, 7, 4, 3, 9, 0));
  EXPECT_THAT(sampler.next(), ElementsAre(0, 4, 8, 3, 5, 9, 7, 2, 6, 1));
}

TEST(Sampler, OrderDependsOnSeedNotOnBatchSize) {
  Sampler three(20, 3, 7, true), seven(20, 7, 7, true), other(20, 7, 8, true);
  const std::vector<int64_t> order = epoch_order(three);
  EXPECT_EQ(order, epoch_order(seven));
  EXPECT_NE(order, epoch_order(other));
}

TEST(Sampler, KeepsFileOrderWithoutShuffling) {
  Sampler sampler(5, 2, 42, false);
  EXPECT_THAT(sampler.next(), ElementsAre(0, 1));
  EXPECT_THAT(sampler.next(), ElementsAre(2, 3));
  EXPECT_THAT(sampler.next(), ElementsAre(4));
  EXPECT_EQ(sampler.position(), (Position{1, 0}));
  EXPECT_THAT(sampler.next(), ElementsAre(0, 1));
}

TEST(Sampler, ResumesAtAnyPosition) {
  Sampler whole(11, 3, 5, true);
  for (int batch = 0; batch < 12; ++batch) {
    Sampler resumed(11, 3, 5, true);
    resumed.seek(whole.position());
    EXPECT_EQ(whole.next(), resumed.next());
    EXPECT_EQ(whole.position(), resumed.position());
  }
}

TEST(Sampler, ShufflesEvenly) {
  std::map<std::vector<int64_t>, int> seen;
  for (uint64_t seed = 0; seed < 6000; ++seed) ++seen[Sampler(3, 3, seed, true).next()];
  ASSERT_EQ(seen.size(), 6u);
  for (const auto& [order, count] : seen) EXPECT_NEAR(count, 1000, 130);  // 4.5 standard deviations
}

TEST(Sampler, RefusesPositionsThatDoNotExist) {
  Sampler sampler(5, 2, 42, true);
  EXPECT_THROW(sampler.seek({0, 5}), Error);
  EXPECT_THROW(sampler.seek({-1, 0}), Error);
  EXPECT_THROW(sampler.seek({0, -1}), Error);
  EXPECT_THROW(Sampler(0, 2, 42, true), Error);
  EXPECT_THROW(Sampler(5, 0, 42, true), Error);
}

}  // namespace
}  // namespace fathom::data
