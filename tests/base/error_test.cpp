// Errors: the remedy is part of the message, and bad usage is told apart.
#include "base/error.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

TEST(Error, SaysWhatAndWhatToDo) {
  EXPECT_STREQ(Error("broken").what(), "broken");
  EXPECT_STREQ(Error("broken", "mend it").what(), "broken; mend it");
}

TEST(Error, BadUsageIsAKindOfError) {
  try {
    throw UsageError("bad key", "use another");
  } catch (const Error& error) {
    EXPECT_NE(dynamic_cast<const UsageError*>(&error), nullptr);
    EXPECT_STREQ(error.what(), "bad key; use another");
  }
}

}  // namespace
}  // namespace fathom
