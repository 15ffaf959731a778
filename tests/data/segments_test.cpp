// Samples as people read them.
#include "data/segments.h"

#include <gtest/gtest.h>

#include "tests/data/byte_tokenizer.h"

namespace fathom::data {
namespace {

TEST(Segments, AreRunsOfTokensThatCountOrDoNot) {
  const testing::ByteTokenizer tokenizer;
  const std::vector<Segment> segments = segments_of({{1, 'p', 200, 'x', 2}, {-100, -100, 200, 'x', 2}}, &tokenizer);
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].text, "p");
  EXPECT_EQ(segments[0].tokens, 2);
  EXPECT_FALSE(segments[0].counts);
  EXPECT_EQ(segments[1].text, "abx$");
  EXPECT_TRUE(segments[1].counts);
}

TEST(Segments, TheFirstTokenNeverCountsAndIdsStandForThemselves) {
  const std::vector<Segment> segments = segments_of({{7, 8, 9}, {7, 8, 9}}, nullptr);
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].text, " 7");
  EXPECT_EQ(segments[1].text, " 8 9");
}

}  // namespace
}  // namespace fathom::data
