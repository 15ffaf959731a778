// No control character reaches a terminal, whatever the text.
#include "base/terminal.h"

#include <gtest/gtest.h>

#include "base/json_value.h"

namespace fathom {
namespace {

TEST(ShownInTerminal, ShowsControlCharactersInsteadOfSendingThem) {
  EXPECT_EQ(shown_in_terminal("\x1b[2J\x1b]0;title\x07"), "\\x1b[2J\\x1b]0;title\\x07");
  EXPECT_EQ(shown_in_terminal("a\rb\bc\x7f\x01"), "a\\x0db\\x08c\\u007f\\x01");
  EXPECT_EQ(shown_in_terminal("\xC2\x9B\x33\x31m \xC2\x9D \xC2\x80\xC2\x9F"), "\\u009b31m \\u009d \\u0080\\u009f");
  EXPECT_EQ(shown_in_terminal(std::string_view("\0x", 2)), "\\x00x");
}

TEST(ShownInTerminal, LeavesTheRest) {
  const std::string text = "line\n\ttab \\x1b \xC2\xA0 Grüße 世界 😀";
  EXPECT_EQ(shown_in_terminal(text), text);
}

TEST(ShownInTerminal, ShowsWhatTurnsTheOrderOfWhatIsRead) {
  EXPECT_EQ(shown_in_terminal("a\u202Egpj.exe\u202C \u2066b\u2069"), "a\\u202egpj.exe\\u202c \\u2066b\\u2069");
}

TEST(ShownInTerminal, ShowsBytesThatAreNoCharacter) {
  // C1 as one byte, a character cut short, one longer than need be (ESC), a surrogate, beyond Unicode.
  EXPECT_EQ(shown_in_terminal("\x9B!\xC2"), "\\x9b!\\xc2");
  EXPECT_EQ(shown_in_terminal("\xC0\x9B"), "\\xc0\\x9b");
  EXPECT_EQ(shown_in_terminal("\xE0\x80\x9B"), "\\xe0\\x80\\x9b");
  EXPECT_EQ(shown_in_terminal("\xED\xA0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(shown_in_terminal("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(ShownInTerminal, KeepsJson) {
  const Json value = {{"a\x1b\x7f\u009B\u202E\n", "\t\u2069 ü"}};
  const std::string shown = shown_in_terminal(format_json(value));
  EXPECT_EQ(parse_json(shown, "shown"), value);
  EXPECT_EQ(shown_in_terminal(shown), shown);
}

}  // namespace
}  // namespace fathom
