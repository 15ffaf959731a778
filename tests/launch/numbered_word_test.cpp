// The number that is varied among the words of a command.
#include "launch/numbered_word.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace fathom::launch {
namespace {

using ::testing::ElementsAre;
using Words = std::vector<std::string>;

TEST(NumberedWord, IsFoundInEachForm) {
  EXPECT_THAT(NumberedWord({"python", "t.py", "--batch", "4", "--seed", "4"}, "batch").words_with(8),
              ElementsAre("python", "t.py", "--batch", "8", "--seed", "4"));
  EXPECT_THAT(NumberedWord({"python", "t.py", "--batch=4"}, "batch").words_with(16),
              ElementsAre("python", "t.py", "--batch=16"));
  EXPECT_THAT(NumberedWord({"tune", "run", "lora", "batch=2"}, "batch").words_with(1),
              ElementsAre("tune", "run", "lora", "batch=1"));
  EXPECT_EQ(NumberedWord({"t.py", "-b", "3"}, "b").number(), 3);
  EXPECT_EQ(NumberedWord({"t.py", "--batch", "3"}, "--batch").number(), 3);
  EXPECT_EQ(NumberedWord({"t.py", "batch", "train", "--batch", "3"}, "batch").number(), 3);
}

TEST(NumberedWord, RefusesWhatGivesNone) {
  for (const Words& words :
       {Words{"t.py"}, Words{"t.py", "--batch"}, Words{"t.py", "--batch", "auto"}, Words{"t.py", "--batch=0"},
        Words{"t.py", "--batch", "2", "--batch=3"}, Words{"", "--"}, Words{"t.py", "batch", "4"}}) {
    EXPECT_THROW(NumberedWord(words, "batch"), UsageError);
  }
}

TEST(LargestThatFits, IsFoundFromBothSides) {
  for (const int64_t limit : {0, 1, 2, 3, 7, 8, 100}) {
    for (const int64_t first : {1, 2, 5, 8, 64}) {
      int tried = 0;
      const auto largest = largest_that_fits(first, [&](int64_t number) {
        EXPECT_GE(number, 1);
        EXPECT_LT(++tried, 20);
        return number <= limit;
      });
      EXPECT_EQ(largest.value_or(0), limit) << "from " << first;
    }
  }
}

}  // namespace
}  // namespace fathom::launch
