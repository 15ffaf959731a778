// No control character reaches a terminal, whatever the text.
#include "base/terminal.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace fathom
