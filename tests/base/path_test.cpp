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

}  // namespace
}  // namespace fathom
