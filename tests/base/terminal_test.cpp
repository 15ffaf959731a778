// No control character reaches a terminal, whatever the text.
#include "base/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/descriptor.h"

namespace fathom {
namespace {

TEST(ShownInTerminal, ShowsControlCharactersInsteadOfSendingThem) {
  EXPECT_EQ(shown_in_terminal("\x1b[2J\x1b]0;title\x07"), "\\x1b[2J\\x1b]0;title\\x07");
  EXPECT_EQ(shown_in_terminal("a\rb\bc\x7f\x01"), "a\\x0db\\x08c\\x7f\\x01");
  EXPECT_EQ(shown_in_terminal("\xC2\x9B\x33\x31m \xC2\x9D \xC2\x80\xC2\x9F"), "\\u009b31m \\u009d \\u0080\\u009f");
  EXPECT_EQ(shown_in_terminal(std::string_view("\0x", 2)), "\\x00x");
}

TEST(ShownInTerminal, LeavesTheRest) {
  const std::string text = "line\n\ttab \\x1b \xC2\xA0 Grüße 世界 😀";
  EXPECT_EQ(shown_in_terminal(text), text);
  EXPECT_EQ(shown_in_terminal("\xC2"), "\xC2");
}

TEST(FitFor, ChangesWhatGoesToATerminalAlone) {
  const Descriptor master(::posix_openpt(O_RDWR | O_NOCTTY));
  ASSERT_TRUE(master.is_open());
  ASSERT_EQ(::grantpt(master.get()) + ::unlockpt(master.get()), 0);
  const Descriptor terminal(::open(::ptsname(master.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(terminal.is_open());
  EXPECT_EQ(fit_for(terminal.get(), "\x1b[2J\n"), "\\x1b[2J\n");
  const Descriptor file(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(fit_for(file.get(), "\x1b[2J\n"), "\x1b[2J\n");
}

}  // namespace
}  // namespace fathom
