// A conversation: a line in is a turn, what the model answers goes out.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

#include "chat/chat_template.h"

namespace fathom::chat {

struct DialogueOptions {
  std::string system;        // the system message; empty: none
  bool interactive = false;  // a person sits at the other end: ask with "> ", tell errors and go on
};

// Writes the answer to a prompt, the conversation so far as the template has it, and returns it.
using Answer = std::function<std::string(const std::string& prompt)>;

// Where a person reads: text as it comes, and why a turn failed.
struct Screen {
  std::function<void(std::string_view text)> show;
  std::function<void(std::string_view line)> show_error;
};

// Until the input ends or a line says /exit; /reset forgets what was said. Blank lines are passed over. A turn that
// failed is as if it had not been, and the screen shows why; not interactive, the Error is thrown.
void hold_dialogue(const ChatTemplate& chat_template, const DialogueOptions& options, std::istream& input,
                   const Screen& screen, const Answer& answer);

}  // namespace fathom::chat
