// Turn after turn: the whole conversation is rendered anew each time, so that the model sees what the template writes.
#include "chat/dialogue.h"

#include <istream>

#include "base/error.h"

namespace fathom::chat {
namespace {

Json first_messages(const DialogueOptions& options) {
  Json messages = Json::array();
  if (!options.system.empty()) messages.push_back({{"role", "system"}, {"content", options.system}});
  return messages;
}

}  // namespace

void hold_dialogue(const ChatTemplate& chat_template, const DialogueOptions& options, std::istream& input,
                   const Screen& screen, const Answer& answer) {
  Json messages = first_messages(options);
  std::string line;
  while (true) {
    if (options.interactive) screen.show("> ");
    if (!std::getline(input, line)) break;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line == "/exit") break;
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    if (line == "/reset") {
      messages = first_messages(options);
      continue;
    }
    const Json before = messages;
    messages.push_back({{"role", "user"}, {"content", line}});
    try {
      const std::string said = answer(chat_template.render(messages, true).text);
      messages.push_back({{"role", "assistant"}, {"content", said}});
    } catch (const Error& error) {
      if (!options.interactive) throw;
      screen.show_error(error.what());
      messages = before;
    }
    screen.show("\n");
  }
  if (options.interactive) screen.show("\n");
}

}  // namespace fathom::chat
