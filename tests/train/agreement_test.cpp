// What ranks that are threads have found, as one.
#include "train/agreement.h"

#include "tests/dist/together.h"

namespace fathom::train {
namespace {

TEST(Agreement, OfOneProcessIsWhatItHasFound) {
  EXPECT_EQ(largest_of_all(nullptr, 15), 15);
  EXPECT_TRUE(as_first_finds(nullptr, true));
  EXPECT_FALSE(as_first_finds(nullptr, false));
}

TEST(Agreement, IsTheSameOnEveryRank) {
  dist::together(3, [](dist::Group& group) {
    const int64_t rank = group.rank();
    EXPECT_EQ(largest_of_all(&group, rank == 1 ? 15 : 0), 15);
    EXPECT_TRUE(as_first_finds(&group, rank == 0));
    EXPECT_FALSE(as_first_finds(&group, rank != 0));
    RanksThatRead ranks(group);
    EXPECT_EQ(ranks.rank(), rank);
    EXPECT_EQ(ranks.gather(std::to_string(rank)), (std::vector<std::string>{"0", "1", "2"}));
  });
}

}  // namespace
}  // namespace fathom::train
