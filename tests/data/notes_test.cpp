// Notes of lines add up alike however they were cut into pieces, and survive as text.
#include "data/notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace fathom::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

LineNotes unread(const std::vector<std::string>& keys) {
  LineNotes notes;
  for (const std::string& key : keys) notes.add(Note::kUnreadKey, key);
  return notes;
}

TEST(Notes, CountLinesAndNameTheFirst) {
  Notes notes;
  notes.add(LineNotes(), 1);
  EXPECT_THAT(notes.told(1), IsEmpty());
  notes.add(unread({"id", "source"}), 2);
  notes.add(unread({"id"}), 4);
  EXPECT_EQ(notes.count(Note::kUnreadKey), (Notes::Count{2, 2}));
  EXPECT_EQ(notes.count(Note::kUnreadKey, "source"), (Notes::Count{1, 2}));
  EXPECT_EQ(notes.count(Note::kEmptyAnswer), Notes::Count());
  EXPECT_THAT(notes.told(4),
              ElementsAre("2 of 4 examples have keys that no format here reads: id, source (1), first in line 2"));
}

TEST(Notes, AreThoseOfTheirPieces) {
  std::vector<LineNotes> lines;
  for (int i = 0; i < 60; ++i) {
    lines.push_back(unread({"key" + std::to_string(i % 37), "id"}));
    if (i % 3 == 0) lines.back().add(Note::kEmptyAnswer);
    lines.back().is_conversation = true;
    lines.back().targets = i;
    lines.back().of_assistant = i / 2;
  }
  Notes whole;
  for (size_t i = 0; i < lines.size(); ++i) whole.add(lines[i], static_cast<int64_t>(i + 1));
  for (const size_t cut : {1U, 20U, 59U}) {
    Notes first, second;
    for (size_t i = 0; i < lines.size(); ++i) (i < cut ? first : second).add(lines[i], static_cast<int64_t>(i + 1));
    first.add(second);
    EXPECT_EQ(first.count(Note::kUnreadKey), whole.count(Note::kUnreadKey));
    EXPECT_EQ(first.count(Note::kUnreadKey, "id"), (Notes::Count{60, 1}));
    EXPECT_EQ(first.count(Note::kEmptyAnswer), (Notes::Count{20, 1}));
    EXPECT_EQ(first.told(60).back(), whole.told(60).back());
  }
  EXPECT_GT(whole.count(Note::kUnreadKey, "others").lines, 0) << "names have no bound";
  EXPECT_THAT(whole.told(60).back(), HasSubstr("50.8 % of the targets are not the assistant's, in 59 of 60 conv"));
}

TEST(Notes, SurviveAsText) {
  Notes notes;
  LineNotes line = unread({"\"id\"", "größe"});
  line.is_conversation = true;
  line.targets = 5;
  line.of_assistant = 2;
  notes.add(line, 7);
  EXPECT_EQ(Notes::from_text(notes.to_text()), notes);
  EXPECT_EQ(Notes::from_text(Notes().to_text()), Notes());
  for (const char* text : {"", "{}", "[]", R"({"counts": [[0]]})"}) EXPECT_THROW(Notes::from_text(text), Error) << text;
}

}  // namespace
}  // namespace fathom::data
