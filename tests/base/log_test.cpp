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

}  // namespace
}  // namespace fathom
