// Log lines: plain text on stderr where it is no terminal, and no progress lines there.
#include "base/log.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

TEST(Log, LinesArePlainWhereStderrIsNoTerminal) {
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(terminal_is_live());
  log_progress("step 1");
  log_info("loading");
  log_warning("slow");
  log_error("broken");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "loading\nwarning: slow\nerror: broken\n");
}

TEST(Log, ShowsControlCharactersInLogFilesToo) {
  ::testing::internal::CaptureStderr();
  log_info("a\x1b[2J");
  log_warning("b\x07");
  log_error("c\u202E");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "a\\x1b[2J\nwarning: b\\x07\nerror: c\\u202e\n");
}

TEST(Log, AWarningIsToldOnce) {
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) log_warning("the same");
  log_warning("another");
  log_info("the same");
  log_info("the same");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "warning: the same\nwarning: another\nthe same\nthe same\n");
}

}  // namespace
}  // namespace fathom
