// What a reader tells of lines that it takes: counted by file, each told once.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fathom::data {

enum class Note {
  kUnreadKey,     // a key that no format reads
  kSpecialText,   // the text of a special token, which became that token
  kUnwritten,     // a part of a conversation that the chat template never writes
  kEmptyAnswer,   // nothing to learn of an answer but the token that ends it
  kEqualAnswers,  // of a preference
};

// Of one line.
struct LineNotes {
  std::set<std::pair<Note, std::string>> notes;
  bool is_conversation = false;
  // Targets, and those of them that the assistant says; where looks_at_share, of a conversation of which all counts.
  bool looks_at_share = false;
  int64_t targets = 0, of_assistant = 0;

  // what: cut where it is long.
  void add(Note note, const std::string& what = "");
};

// Of a file.
class Notes {
 public:
  struct Count {
    int64_t lines = 0, first_line = 0;
    bool operator==(const Count&) const = default;
  };

  void add(const LineNotes& notes, int64_t line);
  void add(const Notes& later);  // of lines behind those that were added before
  // Lines that have the note; with what it says of them, of those alone. Nothing said of a line is nothing found.
  Count count(Note note, const std::string& what = "") const;
  int64_t conversations() const { return conversations_; }
  // What the user should know, without the file's name; examples: how many the file holds.
  std::vector<std::string> told(int64_t examples) const;

  std::string to_text() const;
  // What to_text() wrote; throws Error for another text.
  static Notes from_text(std::string_view text);
  bool operator==(const Notes&) const = default;

 private:
  std::string list_of(Note note) const;

  std::map<std::pair<Note, std::string>, Count> counts_;  // of each note as a whole under ""
  int64_t conversations_ = 0, looked_at_ = 0, targets_ = 0, of_assistant_ = 0;
};

}  // namespace fathom::data
