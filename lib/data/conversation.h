// Conversations of a line in the one form that chat templates read.
#pragma once

#include <vector>

#include "base/json_value.h"
#include "data/line.h"
#include "data/notes.h"

namespace fathom::data {

// What a line says of a message's part in the loss: weight, train.
enum class Voice { kUnsaid, kSilent, kCounts };

struct Conversation {
  Json messages;                    // objects with role and content
  Json variables;                   // what else the template may read: tools and chat_template_kwargs
  std::vector<Voice> voices;        // of each message
  std::vector<std::string> places;  // of each message, as errors call it: "messages[2]"
};

// {"messages": [{role, content}, …], "system"?}; key: messages, or prompt and completion, of which the latter has no
// system.
Conversation read_messages(const Line& line, LineNotes& notes, const char* key = "messages");
// ShareGPT: {"conversations": [{from, value}, …], "system"?}, with human, gpt, system and tool.
Conversation read_sharegpt(const Line& line, LineNotes& notes);

}  // namespace fathom::data
