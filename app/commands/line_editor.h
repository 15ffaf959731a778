// Lines from stdin: in a terminal with a prompt, editing and the lines before at the arrow keys.
#pragma once

#include <optional>
#include <string>

namespace fathom::app {

class LineEditor {
 public:
  // Where stdin and stdout are a terminal and Debian's libedit (BSD licence) is there, it edits; else lines come as the
  // terminal or the file gives them. The prompt is shown in a terminal alone.
  explicit LineEditor(std::string prompt);
  // Without its line break; nothing at the end.
  std::optional<std::string> read();
  bool is_interactive() const { return interactive_; }

 private:
  using ReadLine = char*(const char*);
  using AddHistory = int(const char*);

  std::string prompt_;
  bool interactive_ = false;
  ReadLine* read_line_ = nullptr;      // null: without editing
  AddHistory* add_history_ = nullptr;  // the same
};

}  // namespace fathom::app
