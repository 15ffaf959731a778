// A run in which nothing was counted is told from one whose parts took nothing.
#include "plan/counted.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fathom::plan {
namespace {

using ::testing::HasSubstr;

TEST(Counted, OfAPlanIsWhatLedgerAndAllocatorHaveSeen) {
  Plan plan;
  EXPECT_THAT(why_uncounted(plan), HasSubstr("the dry run's ledger saw no allocation at all"));
  plan.dry_run.peak = 1;
  EXPECT_EQ(why_uncounted(plan), "");
  plan.gpu.emplace();
  EXPECT_THAT(why_uncounted(plan), HasSubstr("the dry run's caching allocator reserved nothing"));
  plan.gpu->reserved = 1;
  EXPECT_EQ(why_uncounted(plan), "") << "components of nothing are none of its business";
  plan.dry_run.peak = 0;
  EXPECT_NE(why_uncounted(plan), "");
}

TEST(Counted, OfARunIsTheSame) {
  Measured measured;
  EXPECT_THAT(why_uncounted(measured), HasSubstr("the run's ledger saw no allocation at all"));
  measured.memory.peak = 1;
  EXPECT_EQ(why_uncounted(measured), "");
  measured.reserved = 0;
  EXPECT_THAT(why_uncounted(measured), HasSubstr("the run's caching allocator reserved nothing"));
}

}  // namespace
}  // namespace fathom::plan
