// A conversation by lines: a line in is a turn, what the model answers goes out.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "chat/chat_template.h"

namespace fathom::chat {

struct DialogueOptions {
  std::string system;        // the system message; empty: none
  bool interactive = false;  // a person sits at the other end: tell errors and go on
};

struct DialogueModel {
  // Writes the answer to a prompt, the conversation so far as the template has it, and returns it.
  std::function<std::string(const std::string& prompt)> answer;
  // Whether the model's positions hold the prompt and an answer; empty: always.
  std::function<bool(const std::string& prompt)> fits;
};

// Where a person reads: text as it comes, what is told beside it, and why a turn failed.
struct Screen {
  std::function<void(std::string_view text)> show;
  std::function<void(std::string_view line)> show_note;
  std::function<void(std::string_view line)> show_error;
};

// The next line without its line break; nothing at the end of the input.
using ReadLine = std::function<std::optional<std::string>()>;

// Until the input ends or a line says /exit; /reset forgets what was said, /help lists these commands. Blank lines are
// passed over. Where the conversation is too long for the model, its oldest turns are left out from then on, the system
// message is kept, and the screen shows that once. A last turn that is too long alone is the model's to refuse. A turn
// that failed is as if it had not been, and the screen shows why; not interactive, the Error is thrown.
void hold_dialogue(const ChatTemplate& chat_template, const DialogueOptions& options, const ReadLine& read_line,
                   const Screen& screen, const DialogueModel& model);

}  // namespace fathom::chat
