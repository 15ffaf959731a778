// Paths as people type them.
#include "base/path.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

TEST(Path, TheParentOfATidyPathIsTheFolderThatHoldsIt) {
  for (const char* typed : {"runs/a/checkpoint-5", "runs/a/checkpoint-5/", "runs/./a/b/../checkpoint-5//"}) {
    EXPECT_EQ(tidy_path(typed), "runs/a/checkpoint-5") << typed;
    EXPECT_EQ(tidy_path(typed).parent_path(), "runs/a") << typed;
  }
  EXPECT_EQ(tidy_path("/"), "/");
  EXPECT_EQ(tidy_path("a/"), "a");
}

TEST(Path, TheSamePlaceIsKnownHoweverItIsWritten) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_TRUE(is_same_path("runs/a", here + "/runs/b/../a/"));
  EXPECT_FALSE(is_same_path("runs/a", "runs/b"));
}

}  // namespace
}  // namespace fathom
