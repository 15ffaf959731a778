// Whole numbers rounded up.
#include "base/rounding.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

TEST(Rounding, IsTheLeastThatIsEnough) {
  for (int64_t value = 0; value < 50; ++value) {
    for (int64_t step = 1; step < 12; ++step) {
      EXPECT_GE(divide_up(value, step) * step, value);
      EXPECT_LT((divide_up(value, step) - 1) * step, value);
      EXPECT_EQ(round_up(value, step), divide_up(value, step) * step);
    }
  }
}

}  // namespace
}  // namespace fathom
