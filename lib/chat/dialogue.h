// A conversation over two streams: a line in is a turn, what the model answers goes out.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include "chat/chat_template.h"

namespace fathom::chat {

struct DialogueOptions {
  std::string system;        // the system message; empty: none
  bool interactive = false;  // a person sits at the other end: ask with "> ", tell errors and go on
};

// Writes the answer to a prompt, the conversation so far as the template has it, and returns it.
using Answer = std::function<std::string(const std::string& prompt)>;

// Until the input ends or a line says /exit; /reset forgets what was said. Blank lines are passed over. errors: where a
// person is told why a turn failed, which is then as if it had not been; not interactive, the Error is thrown.
void hold_dialogue(const ChatTemplate& chat_template, const DialogueOptions& options, std::istream& input,
                   std::ostream& output, std::ostream& errors, const Answer& answer);

}  // namespace fathom::chat
