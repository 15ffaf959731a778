// Counts with a letter.
#include "base/count.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

TEST(Count, IsReadWithItsLetter) {
  EXPECT_EQ(parse_count("2T"), 2e12);
  EXPECT_EQ(parse_count("7b"), 7e9);
  EXPECT_EQ(parse_count("1.5M"), 1.5e6);
  EXPECT_EQ(parse_count("300K"), 3e5);
  EXPECT_EQ(parse_count("12"), 12);
  EXPECT_EQ(parse_count("0"), 0);
}

TEST(Count, AnythingElseIsNone) {
  for (const char* text :
       {"", "T", "-1B", "1e9", "7 B", "7BB", "nan", "inf", "0x10", "2Tx", "9999999T", "llama-2-7b"}) {
    EXPECT_FALSE(parse_count(text)) << text;
  }
}

TEST(Count, IsWrittenInThreeDigits) {
  EXPECT_EQ(short_count(2e12), "2T");
  EXPECT_EQ(short_count(6738415616.0), "6.74B");
  EXPECT_EQ(short_count(151000), "151K");
  EXPECT_EQ(short_count(999999), "1M");
  EXPECT_EQ(short_count(12), "12");
}

}  // namespace
}  // namespace fathom
