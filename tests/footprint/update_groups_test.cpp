// Groups hold every element once, in whole blocks, and no more than they may.
#include "footprint/update_groups.h"

#include <gtest/gtest.h>

#include "quant/dynamic.h"

namespace fathom::footprint {
namespace {

constexpr int64_t kBlock = quant::kDynamicBlock;

TEST(UpdateGroups, FillOneAfterTheOther) {
  const std::vector<UpdateGroup> groups =
      update_groups({{kUpdatedAtOnce - 3 * kBlock}, {kBlock + 1}, {2 * kBlock}, {5}});
  ASSERT_EQ(groups.size(), 2);
  EXPECT_EQ(groups[0], (UpdateGroup{{0, 0, kUpdatedAtOnce - 3 * kBlock}, {1, 0, kBlock + 1}, {2, 0, kBlock}}));
  EXPECT_EQ(groups[1], (UpdateGroup{{2, kBlock, kBlock}, {3, 0, 5}}));
  EXPECT_EQ(elements_of(groups[0]), kUpdatedAtOnce);
  EXPECT_EQ(elements_of(groups[1]), 2 * kBlock);
}

TEST(UpdateGroups, KeepKindsApart) {
  const std::vector<UpdateGroup> groups =
      update_groups({{100}, {5000, false, true}, {100, true}, {5000, true, true}, {200}, {6000, false, true}});
  ASSERT_EQ(groups.size(), 4);
  EXPECT_EQ(groups[0], (UpdateGroup{{0, 0, 100}, {4, 0, 200}}));
  EXPECT_EQ(groups[1], (UpdateGroup{{1, 0, 5000}, {5, 0, 6000}}));
  EXPECT_EQ(groups[2], (UpdateGroup{{2, 0, 100}}));
  EXPECT_EQ(groups[3], (UpdateGroup{{3, 0, 5000}}));
}

TEST(UpdateGroups, NoSpanCrossesABorderOfDraws) {
  const auto groups = update_groups({{1000, true, false, (int64_t{1} << 32) - 16}});
  EXPECT_EQ(groups, (std::vector<UpdateGroup>{{{0, 0, 16}, {0, 16, 984}}}));
  constexpr int64_t kBorder = int64_t{1} << 32, kElements = kBorder + 1000;
  int64_t next = 0;
  for (const UpdateGroup& group : update_groups({{kBlock}, {kElements}})) {
    EXPECT_LE(elements_of(group), kUpdatedAtOnce);
    for (const Span& span : group) {
      if (span.parameter == 0) continue;
      EXPECT_EQ(span.first, next);
      EXPECT_EQ(span.first % kBlock, 0);
      EXPECT_EQ(span.first / kBorder, (span.first + span.n - 1) / kBorder);
      next += span.n;
    }
  }
  EXPECT_EQ(next, kElements);
}

}  // namespace
}  // namespace fathom::footprint
