// Texts at which an answer ends: none of them is shown, nor what may become one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fathom::chat {

class StopTexts {
 public:
  // Empty texts stop nothing.
  explicit StopTexts(std::vector<std::string> stops);
  // What can be shown now that `more` has come: without an end that a stop text may begin with, and up to the first
  // stop text. Nothing once the answer has ended.
  std::string push(std::string_view more);
  // What was held back, once no more comes.
  std::string finish();
  bool has_ended() const { return has_ended_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool has_ended_ = false;
};

}  // namespace fathom::chat
