// Where answers end, however their text comes.
#include "chat/stop_texts.h"

#include <gtest/gtest.h>

namespace fathom::chat {
namespace {

// What is shown of a text that comes in pieces of `size` bytes.
std::string shown(const std::vector<std::string>& stops, const std::string& text, size_t size) {
  StopTexts stop(stops);
  std::string all;
  for (size_t at = 0; at < text.size(); at += size) all += stop.push(std::string_view(text).substr(at, size));
  return all + stop.finish();
}

TEST(StopTexts, EndAnAnswerBeforeThemHoweverItComes) {
  for (size_t size = 1; size < 12; ++size) {
    EXPECT_EQ(shown({"\nUser:"}, "one\ntwo\nUser: three", size), "one\ntwo") << size;
    EXPECT_EQ(shown({"zzz", "ab", "b"}, "xxabx", size), "xx") << size;
    EXPECT_EQ(shown({"aab"}, "aaab", size), "a") << size;
    EXPECT_EQ(shown({"stop"}, "no sto", size), "no sto") << size;
    EXPECT_EQ(shown({}, "all of it", size), "all of it") << size;
    EXPECT_EQ(shown({""}, "all of it", size), "all of it") << size;
  }
}

TEST(StopTexts, HoldBackNoMoreThanABeginning) {
  StopTexts stop({"END"});
  EXPECT_EQ(stop.push("text E"), "text ");
  EXPECT_EQ(stop.push("n"), "En");
  EXPECT_EQ(stop.push("EN"), "");
  EXPECT_FALSE(stop.has_ended());
  EXPECT_EQ(stop.push("D more"), "");
  EXPECT_TRUE(stop.has_ended());
  EXPECT_EQ(stop.push("more"), "");
  EXPECT_EQ(stop.finish(), "");
}

}  // namespace
}  // namespace fathom::chat
