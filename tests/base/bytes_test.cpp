// Sizes in bytes: what is written, what is read, and what is refused.
#include "base/bytes.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace fathom {
namespace {

TEST(Bytes, AreWrittenInTheLargestFittingUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(kMiB - 1), "1.00 MiB");
  EXPECT_EQ(format_bytes(kGiB * 80), "80.00 GiB");
  EXPECT_EQ(format_bytes(kMiB * 1002), "1,002.00 MiB");
  EXPECT_EQ(format_bytes(-1536), "-1.50 KiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<int64_t>::max()), "8.00 EiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<int64_t>::min()), "-8.00 EiB");
}

TEST(Bytes, CountsAreGroupedByThousands) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(-1000), "-1,000");
  EXPECT_EQ(format_count(12345678), "12,345,678");
}

TEST(Bytes, AreReadExactly) {
  EXPECT_EQ(parse_bytes("1024"), 1024);
  EXPECT_EQ(parse_bytes("24GiB"), 24 * kGiB);
  EXPECT_EQ(parse_bytes("80 GB"), 80'000'000'000);
  EXPECT_EQ(parse_bytes("1.5MiB"), 1'572'864);
  EXPECT_EQ(parse_bytes("0B"), 0);
  EXPECT_EQ(parse_bytes("9223372036854775807"), std::numeric_limits<int64_t>::max());
}

TEST(Bytes, OtherTextsAreRefused) {
  for (const char* text : {"", " ", "GiB", "1.", ".5GiB", "-1", "1e3", "24 gib", "24Gb", "24  GiB", "24GiB ", "1.2.3KB",
                           "0x10", "9223372036854775808", "99999999TiB", "99999999999999999999999999"}) {
    EXPECT_THROW(parse_bytes(text), Error) << text;
  }
}

TEST(Bytes, ArithmeticRefusesToWrap) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(checked_multiply(1 << 20, 1 << 20, "x"), int64_t{1} << 40);
  EXPECT_EQ(checked_add(kMost - 1, 1, "x"), kMost);
  EXPECT_THROW(checked_add(kMost, 1, "x"), Error);
  EXPECT_THROW(checked_multiply(int64_t{1} << 32, int64_t{1} << 31, "x"), Error);
  EXPECT_THROW(checked_multiply(-1, 1, "x"), Error);
  EXPECT_THROW(checked_add(-1, 1, "x"), Error);
}

}  // namespace
}  // namespace fathom
